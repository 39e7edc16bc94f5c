"""The launcher template: the process from which the launchers of a sweep's runs are forked.

It has imported what the command ``run`` needs, so that a run does not begin with half a second of imports. Theory of
operation (docs/adr/0024):

    sweep ── launcher template ── launcher (one run)
         └── root template ── warm template ── run template ── device

- It is an interpreter of its own, not a fork of the sweep, which may be a notebook with threads and a user's modules.
  It imports no module of a user, so that each run imports their present text, and it never has a second thread.
- ``forkserver`` forks on request. A launcher has the variables, folder, import path and cores of the sweep, a process
  group of its own, and three descriptors: its standard output and error, and a connection to the root template.
- Stop signals are blocked in the template, and so in a launcher until its command begins: none of them is lost. A run
  handles them. Before it, while the profile is read, Ctrl-C ends the launcher with exit code 130; SIGTERM kills it.
- When the sweep ends for any reason, the template ends, and the kernel kills the launcher (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from testbed.common.channel import Channel, close_all, readable
from testbed.common.plugins import IN_A_RUN
from testbed.common.signals import STOP_SIGNALS
from testbed.common.terminal.output_stream import OutputStream
from testbed.host import surroundings
from testbed.host.cores import die_with_parent
from testbed.host.surroundings import Surroundings
from testbed.processes.templates import early, forkserver
from testbed.processes.templates.forkserver import Exited, ForkBatch, ForkReport
from testbed.processes.templates.run_process import RunProcess

COMMAND: Callable[[Sequence[str]], int] | None = None
"""The command line that launchers carry out, in the template and in what is forked from it."""
_PIECE_BYTES = 1 << 16


class LauncherTemplate:
    """A launcher template, as the sweep sees it."""

    def __init__(self, program: Path) -> None:
        """``program`` is a Python file that calls ``serve``."""
        self.pid, end = early.spawn(program, {})
        self._channel: Channel[ForkReport] = Channel(end, ForkReport)

    def is_alive(self) -> bool:
        return early.is_alive(self.pid)

    def launch(self, words: Sequence[str], template: int) -> LaunchedRun:
        """Start a run with this command line. ``template`` is a connection to the root template."""
        around = surroundings.of_this_process({IN_A_RUN: "1"})
        (output, their_output), (errors, their_errors) = os.pipe(), os.pipe()
        run = LaunchedRun(self._channel, output, errors)
        order = forkserver.order("launcher", _launch, list(words), around, descriptors=3)
        try:
            self._channel.send(ForkBatch(orders=(order,)), [their_output, their_errors, template])
        except OSError:
            run.note_death()
        finally:
            close_all((their_output, their_errors))
        return run

    def end(self) -> None:
        """End it, and with it a run that is not over."""
        self._channel.close()
        early.end_template(self.pid, signal.SIGKILL)


class LaunchedRun:
    """The launcher of one run, as the sweep sees it."""

    def __init__(self, channel: Channel[ForkReport], output: int, errors: int) -> None:
        self._channel = channel
        self._process: RunProcess | None = None
        self._pending: list[int] = []
        """Signals that came before the launcher was forked."""
        self._written = {output: bytearray(), errors: bytearray()}
        self._texts = tuple(self._written.values())
        self.code: int | None = None
        """Its exit code, negative: the signal that ended it; None while it lives."""

    @property
    def output(self) -> str:
        return self._texts[0].decode(errors="replace")

    @property
    def errors(self) -> str:
        return self._texts[1].decode(errors="replace")

    def wait(self, seconds: float) -> bool:
        """Wait for news, at most this long. Returns whether it has ended and all that it has written is read."""
        waiting = [*self._written, *([self._channel.fileno()] if self.code is None else [])]
        ready = readable(waiting, seconds)
        for descriptor in ready & self._written.keys():
            self._read(descriptor)
        if self.code is None and self._channel.fileno() in ready:
            try:
                self._hear(self._channel.receive()[0])
            except EOFError:
                self.note_death()
        return self.code is not None and not self._written

    def signal(self, number: int) -> None:
        if self._process is None:
            self._pending.append(number)
        else:
            self._process.signal(number)

    def note_death(self) -> None:
        """The template has died, and the kernel kills the launcher."""
        self.code = -signal.SIGKILL

    def _read(self, descriptor: int) -> None:
        piece = os.read(descriptor, _PIECE_BYTES)
        self._written[descriptor] += piece
        if not piece:
            del self._written[descriptor]
            os.close(descriptor)

    def _hear(self, report: ForkReport) -> None:
        if isinstance(report, Exited):
            self.code = report.code
            if self._process is not None:
                self._process.exitcode = report.code
        elif report.problem:
            self.code = 1
            self._texts[1].extend(f"error: the launcher could not be forked: {report.problem}; free memory\n".encode())
        else:
            self._process = RunProcess(report.pid)
            for number in self._pending:
                self._process.signal(number)


# ---- in the template


def serve(command: Callable[[Sequence[str]], int]) -> NoReturn:
    """Be a launcher template, after all imports: fork launchers that carry out ``command`` until the sweep ends."""
    global COMMAND
    COMMAND = command
    die_with_parent(int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # no later collection touches these pages, so they stay shared
    forkserver.serve(socket.socket(fileno=early.CHANNEL))
    os._exit(0)


def _launch(words: Sequence[str], around: Surroundings, output: int, errors: int, template: int) -> NoReturn:
    """Be the launcher of one run."""
    assert COMMAND is not None
    os.setpgid(0, 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    close_all((output, errors))
    sys.stdout, sys.stderr = map(_stream, (1, 2))
    around.take_over()
    os.environ[early.SOCKET] = str(template)
    code = 128 + signal.SIGINT
    with contextlib.suppress(KeyboardInterrupt):  # outside of a run, which has its own handler
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        code = COMMAND(words)
    sys.exit(code)


def _stream(descriptor: int) -> OutputStream:
    """Return a standard stream as the sweep reads it, which has each line at once: a launcher may be killed."""
    stream = open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115  open as long as the process
    return OutputStream(lambda: stream)
