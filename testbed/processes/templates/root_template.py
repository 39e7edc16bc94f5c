"""The root template: it stands ready before a run, and forks a warm template for each task.

Theory of operation (docs/adr/0024):

    owner ── root template ── warm template ── run template ── device
             imports torch    has one task     forks (forkserver)

- ``early`` starts the program of the root template (``root_program``). It imports torch and the rest and then only
  waits: a connection comes from its owner for each run, and on it the launcher's request.
- For a request it forks a warm template, or takes one that has the same task, if no file that this one has read was
  changed since. At most two that no run uses are kept. The connection is passed on: the warm template answers the
  survey, and forks run templates, copies of itself, on request. It never runs code of a run, so nothing of a run can
  reach the next one.
- Who ends: the kernel kills each process when its parent ends (PR_SET_PDEATHSIG); the root template receives a signal
  instead, and it also ends when its lease is closed. A warm template ends the run templates of a run whose connection
  is closed. The root template, which never computes, keeps a copy of the connection to see that moment, too, and
  removes the private folder of a launcher that died as soon as nobody holds its lock (``host.private_folder``).
- The signal that ends the root template is handled between two requests, never in the middle of one: a request brings
  the lock of a private folder along, and a process that holds the lock itself cannot remove the folder.
- Every process closes the descriptors of its parent: an end that is open somewhere else would never be seen as closed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from testbed.common.channel import Channel, close_all, readable, receive_descriptors
from testbed.common.signals import STOP_SIGNALS
from testbed.common.terminal import output_stream
from testbed.host import private_folder
from testbed.host.cores import die_with_parent
from testbed.processes.templates import early, template
from testbed.processes.templates.template import Prepare, TemplateAnswer
from testbed.processes.templates.warm_template import Warmed, WarmTemplate, run_and_exit

_END_SECONDS = 1.0
_LOOK_SECONDS, _ATTEMPTS = 0.02, 3000
"""How often we try to remove a folder that is in use: for a minute. After that, the next run removes it."""
MOST_IDLE = 2
"""Warm templates that are kept although no run uses them."""


class _Warm:
    """A warm template, as the root template sees it."""

    def __init__(self, pid: int, end: socket.socket, key: bytes) -> None:
        self.pid, self.key = pid, key
        self.channel = Channel(end, Warmed)
        self.warmed: Warmed | None = None
        """None while it prepares a request."""

    def fits(self, key: bytes) -> bool:
        return self.warmed is not None and self.key == key and self.warmed.files.are_unchanged()

    def end(self) -> None:
        """End it. Unless it prepares a request, it first waits for its processes, so that their CPU time is counted."""
        self.channel.close()
        with os.fdopen(os.pidfd_open(self.pid)) as ended:
            if self.warmed is None or not readable([ended.fileno()], _END_SECONDS):
                os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class _Run:
    """A connection that was passed on to a warm template."""

    def __init__(self, connection: int, private: bytes, warm: _Warm) -> None:
        self.connection, self.private, self.warm = connection, Path(os.fsdecode(private)), warm


class RootTemplate:
    """Passes each connection on to a warm template, and cleans up after launchers that died."""

    def __init__(self, lease: socket.socket, owner: int) -> None:
        self._lease, self._owner = lease, owner
        self._new: list[Channel[Prepare]] = []
        """Connections without a request so far."""
        self._runs: list[_Run] = []
        self._warm: list[_Warm] = []
        """The one that was used last is the last."""
        self._left: dict[Path, int] = {}
        """Private folders of runs that have ended → how often we still try to remove them."""
        self._signalled, self._on_signal = socket.socketpair()
        """The first can be read after a signal that came while we served."""
        self._on_signal.setblocking(False)

    def serve(self) -> None:
        """Serve connections until the owner closes its end, or the signal ``early.END`` comes."""
        signal.set_wakeup_fd(self._on_signal.fileno())
        signal.signal(early.END, lambda *_: None)
        while True:
            ready = self._wait()
            if self._signalled.fileno() in ready or (self._lease.fileno() in ready and not self._accept()):
                return
            for warm in [each for each in self._warm if each.channel.fileno() in ready]:
                self._hear(warm)
            for run in [each for each in self._runs if each.connection in ready]:
                self._forget(run)
            for channel in [each for each in self._new if each.fileno() in ready]:
                self._new.remove(channel)
                self._take_request(channel)
            self._remove_left()
            self._end_idle()

    def wait_for_signal(self) -> None:
        """Wait for the signal that follows the end of the lease: it says whether the owner lives.

        It comes from an owner that lives, or from the kernel for one that was killed. Only then is it known which: the
        kernel closes the files of a killed process before its children get another parent.
        """
        readable([self._signalled.fileno()])

    def end(self) -> None:
        """End all templates, and remove the private folders of launchers that died."""
        for warm in self._warm:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                warm.end()
        signal.set_wakeup_fd(-1)
        for end in (self._signalled, self._on_signal, self._lease):
            end.close()
        for channel in self._new:  # requests that were not read hold locks, too
            channel.close()
        self._left |= {run.private: _ATTEMPTS for run in self._runs}
        if os.getppid() == self._owner:  # it removes its own folder
            self._remove_left()
            return
        private_folder.sweep()
        while self._left:  # until the processes of its run have ended, too
            self._remove_left()
            select.select([], [], [], _LOOK_SECONDS)

    def _wait(self) -> set[int]:
        waiting = select.poll()
        new, warm = [each.fileno() for each in self._new], [each.channel.fileno() for each in self._warm]
        for descriptor in (self._lease.fileno(), self._signalled.fileno(), *new, *warm):
            waiting.register(descriptor, select.POLLIN)
        for run in self._runs:
            waiting.register(run.connection, 0)  # only its end: the warm template reads what comes
        return {descriptor for descriptor, _ in waiting.poll(_LOOK_SECONDS * 1000 if self._left else None)}

    def _accept(self) -> bool:
        text, descriptors = receive_descriptors(self._lease, 1, 1)
        self._new += [Channel(socket.socket(fileno=descriptor), Prepare) for descriptor in descriptors]
        return bool(text)

    def _take_request(self, channel: Channel[Prepare]) -> None:
        try:
            prepare, outputs = channel.receive()
        except EOFError:  # the launcher ended before it had a request
            channel.close()
            return
        key = prepare.task_key()
        warm = next((each for each in self._warm if each.fits(key)), None)
        try:
            warm = warm or self._fork_warm(key, [channel.fileno(), *outputs])
            warm.channel.send(prepare, [channel.fileno(), *outputs])
        except OSError as error:
            with contextlib.suppress(OSError):  # the launcher has gone
                channel.send(TemplateAnswer(problem="the template could not be forked", details=repr(error)))
        else:
            warm.warmed = None
            self._warm.append(self._warm.pop(self._warm.index(warm)))
            self._runs.append(_Run(os.dup(channel.fileno()), prepare.private, warm))
        finally:
            close_all(outputs)
            channel.close()

    def _fork_warm(self, key: bytes, descriptors: Sequence[int]) -> _Warm:
        ours, theirs = socket.socketpair()
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            run_and_exit(lambda: self._become_warm(parent, theirs, [ours.fileno(), *descriptors]))
        theirs.close()
        self._warm.append(_Warm(pid, ours, key))
        return self._warm[-1]

    def _become_warm(self, parent: int, control: socket.socket, descriptors: Sequence[int]) -> None:
        signal.signal(early.END, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        die_with_parent(parent)
        self._signalled.close()
        self._on_signal.close()
        close_all([run.connection for run in self._runs])
        for channel in self._new:
            channel.close()
        for warm in self._warm:
            warm.channel.close()
        self._lease.close()
        close_all(descriptors)
        WarmTemplate(control).serve()

    def _hear(self, warm: _Warm) -> None:
        try:
            warm.warmed, _ = warm.channel.receive()
        except EOFError:  # it has died, or could not load its task
            self._warm.remove(warm)
            warm.end()
            for run in [each for each in self._runs if each.warm is warm]:
                os.close(run.connection)  # so that the launcher sees the end
                self._runs.remove(run)
                self._left[run.private] = _ATTEMPTS

    def _forget(self, run: _Run) -> None:
        """The launcher has closed its connection, or has died."""
        self._runs.remove(run)
        os.close(run.connection)
        others = any(each.warm is run.warm for each in self._runs)
        if run.warm.warmed is None and run.warm in self._warm and not others:  # nobody waits for its answer any more
            self._warm.remove(run.warm)
            run.warm.end()
        self._left[run.private] = _ATTEMPTS

    def _remove_left(self) -> None:
        """Remove the private folders of launchers that died.

        A launcher that lives holds the lock until it has removed the folder itself. So do the processes of a run whose
        launcher was killed, for the moment that they have left.
        """
        self._left = {
            place: attempts - 1
            for place, attempts in self._left.items()
            if attempts > 0 and not private_folder.remove_abandoned(place)
        }

    def _end_idle(self) -> None:
        used = {id(run.warm) for run in self._runs}
        idle = [warm for warm in self._warm if id(warm) not in used]
        for warm in idle[: max(0, len(idle) - MOST_IDLE)]:
            self._warm.remove(warm)
            warm.end()


def main(owner: int) -> None:
    """Be the root template of the process ``owner``."""
    output_stream.take_over()  # of all processes of its runs: a task or a strategy may print, and a disk may be full
    for number in STOP_SIGNALS:  # terminals and batch systems signal the whole group; all forked processes inherit this
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    root = RootTemplate(socket.socket(fileno=early.CHANNEL), owner)

    def end(*_: object) -> NoReturn:
        signal.signal(early.END, signal.SIG_IGN)  # or a second signal would interrupt this
        root.end()
        os._exit(0)

    signal.signal(early.END, end)
    if os.getppid() != owner:
        end()
    die_with_parent(owner, early.END)
    template.import_everything()
    with contextlib.suppress(ConnectionResetError):
        root.serve()
    root.wait_for_signal()
    end()
