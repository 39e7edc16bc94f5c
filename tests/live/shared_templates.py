"""The templates that the runs of this pytest worker share, so that each of them need not import everything again.

Runs of a sweep share them in the same way: a root template for the processes of a run, and a launcher template for its
launcher. A test with other variables than those with which they were started, or one that looks at them, has its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence

import psutil

from testbed.processes.templates import early
from testbed.sweeps import runner
from testbed.sweeps.launcher_template import LaunchedRun, LauncherTemplate

_TEST = "EDGEBED_TEST_"
_MARK = f"{_TEST}TEMPLATES"
_HARMLESS = (_TEST, "PYTEST_", "KMP_")
"""Beginnings of variables that tests, pytest and (when it is imported) scikit-learn set."""


class _Shared:
    def __init__(self) -> None:
        self.variables = _variables()
        self.mark = uuid.uuid4().hex
        with _marked(self.mark):
            self.root = early._Root()  # not the one of ``early``: that belongs to the test
            self.launchers = LauncherTemplate(runner.PROGRAM)
        atexit.register(self.end)

    def is_alive(self) -> bool:
        return early.is_alive(self.root.pid) and self.launchers.is_alive()

    def end(self) -> None:
        self.launchers.end()
        self.root.end()

    def connect(self) -> socket.socket:
        self.root.is_connected = True
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.root.lease, [b"+"], [theirs.fileno()])
        return ours


_shared: _Shared | None = None


def connected() -> contextlib.AbstractContextManager[socket.socket | None]:
    """Yield a connection for one run; None if the test has set a variable that libraries may read when imported."""
    global _shared
    if _shared is None or not _shared.is_alive():
        _shared = _Shared()
    return _shared.connect() if _shared.variables == _variables() else contextlib.nullcontext()


def launch(words: Sequence[str], connection: socket.socket) -> LaunchedRun:
    """Start a run with this command line, in the current folder. ``connection``: as ``connected`` has returned it."""
    assert _shared is not None
    return _shared.launchers.launch(words, connection.fileno())


def processes() -> list[psutil.Process]:
    """What was forked for runs and is still there, even if it has lost its parent; not the templates themselves."""
    if _shared is None:
        return []
    marked = [process for process in psutil.process_iter() if has_variable(process, _MARK, _shared.mark)]
    templates = [_shared.root.pid, _shared.launchers.pid]
    return [each for each in marked if each.pid not in templates and each.ppid() != _shared.root.pid]


def has_variable(process: psutil.Process, name: str, value: str) -> bool:
    """Whether a process was started with a variable, or forked from one that was."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(name) == value
    except psutil.Error:
        return False  # it has ended, or belongs to another user


def _variables() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_HARMLESS)}


@contextlib.contextmanager
def _marked(mark: str) -> Iterator[None]:
    """Have this mark instead of those of the test."""
    marks = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith(_TEST)}
    os.environ[_MARK] = mark
    try:
        yield
    finally:
        del os.environ[_MARK]
        os.environ.update(marks)
