"""A root template for the runs of this pytest worker, so that each of them need not import torch again.

Runs of a sweep share one in the same way. A test with other variables than those with which it was started, or one that
looks at templates, has its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import uuid
from collections.abc import Iterator, Mapping

import psutil

from testbed.processes.templates import early

_TEST = "EDGEBED_TEST_"
_MARK = f"{_TEST}TEMPLATES"


class _Shared:
    def __init__(self) -> None:
        self.variables = _variables()
        self.mark = uuid.uuid4().hex
        with _marked(self.mark):
            self.root = early._Root()  # not the one of ``early``: that belongs to the test
        atexit.register(self.root.end)

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
    if _shared is None or not early.is_alive(_shared.root.pid):
        _shared = _Shared()
    return _shared.connect() if _shared.variables == _variables() else contextlib.nullcontext()


def processes() -> list[psutil.Process]:
    """What was forked for runs and is still there, even if it has lost its parent; not the templates themselves."""
    if _shared is None:
        return []
    marked = [process for process in psutil.process_iter() if has_variable(process, _MARK, _shared.mark)]
    return [process for process in marked if _shared.root.pid not in (process.pid, process.ppid())]


def has_variable(process: psutil.Process, name: str, value: str) -> bool:
    """Whether a process was started with a variable, or forked from one that was."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(name) == value
    except psutil.Error:
        return False  # it has ended, or belongs to another user


def _variables() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith((_TEST, "PYTEST_"))}


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
