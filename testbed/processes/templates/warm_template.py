"""A warm template: it has the task of a run, answers its survey, and forks its run templates.

``root_template`` says which process does what, and which ends when.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from testbed.common.channel import Channel, close_all, readable
from testbed.common.files.opened_files import FileMarks, OpenedFiles
from testbed.common.plugins import IN_A_RUN
from testbed.host.cores import die_with_parent
from testbed.processes.templates import child, forkserver, template
from testbed.processes.templates.template import OpenTemplates, Prepare, TemplatesOpened


class Warmed(msgspec.Struct, frozen=True, kw_only=True):
    """From a warm template: it has answered, and has read these files."""

    files: FileMarks


class _ServedRun:
    """A run that has been answered, and whose launcher lives."""

    def __init__(self, channel: Channel[OpenTemplates], locks: Sequence[int]) -> None:
        self.channel = channel
        self.pids: list[int] = []
        """Its run templates."""
        self.locks = locks
        """The lock of its private folder, which all processes that are forked for it inherit."""


class WarmTemplate:
    """Has one task. Answers surveys, and forks the run templates of each run from itself."""

    def __init__(self, control: socket.socket) -> None:
        self._control = Channel(control, Prepare)
        self._files = OpenedFiles()
        self._runs: dict[int, _ServedRun] = {}
        """Descriptor of a connection → its run."""

    def serve(self) -> None:
        """Serve runs until the root template ends, or until a request cannot be met."""
        while True:
            ready = readable([self._control.fileno(), *self._runs])
            for descriptor in ready & self._runs.keys():
                self._serve_run(descriptor)
            if self._control.fileno() in ready:
                try:
                    prepare, descriptors = self._control.receive()
                except EOFError:
                    return self._end_templates()
                if not self._begin(prepare, *descriptors):
                    return None

    def _begin(self, prepare: Prepare, connection: int, output: int, errors: int, *others: int) -> bool:
        """Answer a request. Returns whether this process can serve further ones."""
        count = len(prepare.request.objects)
        objects, locks = others[:count], others[count:]
        run = _ServedRun(Channel(socket.socket(fileno=connection), OpenTemplates), locks)
        _write_to(output, errors)
        prepare.surroundings.take_over()
        os.environ[IN_A_RUN] = "1"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.fsdecode(prepare.private)  # torch.optim makes this folder
        answer = template.answer(prepare.request, Path(os.fsdecode(prepare.private)), self._files, objects)
        close_all(objects)
        _write_to(os.open(os.devnull, os.O_WRONLY), os.open(os.devnull, os.O_WRONLY))
        if answer.survey is not None:
            self._control.send(Warmed(files=self._files.marks()))  # first: the next run may come at once
        self._runs[connection] = run
        with contextlib.suppress(BrokenPipeError):  # the launcher has gone
            run.channel.send(answer)
        return answer.survey is not None

    def _serve_run(self, descriptor: int) -> None:
        run = self._runs[descriptor]
        try:
            request, ends = run.channel.receive()
            run.channel.send(self._open_templates(ends, run, os.fsdecode(request.log)))
        except (EOFError, BrokenPipeError):  # the launcher has ended, and the run with it
            del self._runs[descriptor]
            run.channel.close()
            _end(run.pids)
            close_all(run.locks)

    def _end_templates(self) -> None:
        for run in self._runs.values():
            _end(run.pids)

    def _open_templates(self, ends: Sequence[int], run: _ServedRun, log: str) -> TemplatesOpened:
        try:
            for end in ends:
                parent, pid = os.getpid(), os.fork()
                if pid == 0:
                    others = [each for each in ends if each != end]
                    run_and_exit(lambda: self._become_run_template(parent, end, others, run, log))  # noqa: B023
                run.pids.append(pid)
        except OSError as error:
            return TemplatesOpened(problem=repr(error))
        finally:
            close_all(ends)
        return TemplatesOpened(pids=tuple(run.pids))

    def _become_run_template(self, parent: int, end: int, others: Sequence[int], own: _ServedRun, log: str) -> None:
        child.log_to(log)
        die_with_parent(parent)
        close_all(others)
        for run in self._runs.values():
            run.channel.close()
            if run is not own:
                close_all(run.locks)
        self._control.close()
        forkserver.serve(socket.socket(fileno=end))


def _end(pids: Sequence[int]) -> None:
    """End run templates. Their processes have ended, or are killed by the kernel."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _write_to(output: int, errors: int) -> None:
    """Have this standard output and standard error."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(output, 1)
    os.dup2(errors, 2)
    close_all((output, errors))


def run_and_exit(work: Callable[[], None]) -> NoReturn:
    """Run the code of a forked process, and end it without the exit handlers of its parents."""
    code = 1
    try:
        work()
        code = 0
    except (EOFError, BrokenPipeError):  # the parent has ended
        code = 0
    except BaseException:  # noqa: BLE001  the last resort of a process
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
