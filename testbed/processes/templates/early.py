"""Starts the root template: the interpreter that imports torch, from which the templates of all runs are forked.

Imports next to nothing, so that the command line can call ``begin`` first of all: torch is then imported beside the
command line's own imports and the reading of data. A process has at most one root template. It is ended after the run,
or, after ``keep``, when this process ends. The owner's end of a socket pair is the lease: when it is closed, for any
reason, the root template ends, and with it all processes that were forked from it.

A run that a sweep starts does not start a root template: it inherits a connection to that of the sweep (``lent``).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from testbed.common.finders import own_packages
from testbed.common.signals import STOP_SIGNALS

CHANNEL = 3
"""The descriptor of a template's end of its socket pair."""
END = signal.SIGUSR1
"""Ends the root template: from its owner, or from the kernel when the owner has died."""
SOCKET = "EDGEBED_TEMPLATE_SOCKET"
"""The variable with the descriptor of an inherited connection."""
_OURS = "EDGEBED_"
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_COMPACT = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"}
"""No caches of small blocks in the C allocator: they would split the space that the next step needs in one piece."""
_PROGRAM = Path(__file__).with_name("root_program.py")
_END_SECONDS = 5.0


class _Root:
    """The root template of this process, as its owner sees it."""

    def __init__(self) -> None:
        self.environment = _foreign_variables()
        """What the libraries that it imports have seen."""
        # a user's own settings of the allocator stay; programs that a task starts do not get ours
        self.pid, self.lease = spawn(_PROGRAM, {} if _COMPACT.keys() & os.environ.keys() else _COMPACT)
        self.is_connected = False
        """Whether a run was connected to it: only then it may have something to clean up."""

    def is_usable(self) -> bool:
        return is_alive(self.pid) and self.environment == _foreign_variables()

    def end(self) -> None:
        """End it, and wait until it has ended. The signal ends it at once; the closed lease would, a moment later."""
        self.lease.close()
        end_template(self.pid, END if self.is_connected else signal.SIGKILL)


_root: _Root | None = None
_is_kept = False


def settings() -> dict[str, str]:
    """The variables that all templates have: where modules are, and one thread for each library."""
    own = str(_PROGRAM.parents[3])
    paths = [own, *(path for path in sys.path if path and path != own)]
    # safe path: or a devices.py beside the program would be imported instead of ours. Our own folder is the first: the
    # program takes it off the path when it begins (testbed.common.finders.own_packages).
    return dict.fromkeys(_ONE_THREAD, "1") | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def is_output(descriptor: int) -> bool:
    """Whether 1 or 2 is this process's standard output or standard error.

    If it was closed when the process began (``>&-``) or later, the number may belong to any other file or socket.
    """
    stream = {1: sys.__stdout__, 2: sys.__stderr__}[descriptor]
    try:
        os.fstat(descriptor)
    except OSError:  # the descriptor was closed, but not the stream
        return False
    return stream is not None and not stream.closed


def spawn(program: Path, variables: Mapping[str, str]) -> tuple[int, socket.socket]:
    """Start a template: a Python program. Returns its pid, and our end of its channel.

    Its arguments are our pid, and whether the folder of our packages stays on its import path.

    Ctrl-C reaches the whole process group: stop signals are blocked until the program decides what it does with them.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, str(program), str(os.getpid()), "stays" if own_packages.is_on_path() else "goes"],
            {**os.environ, **settings(), **variables},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), CHANNEL),  # first: it may have the number of a closed output
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                *((os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_WRONLY, 0) for each in (1, 2) if not is_output(each)),
            ],
            setsigmask=STOP_SIGNALS,
        )
    return pid, ours


def is_alive(pid: int) -> bool:
    """Whether a template that this process has spawned is still there."""
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:  # somebody else has waited for it
        return False


def end_template(pid: int, number: int) -> None:
    """Send a template a signal that ends it, and wait until it has ended."""
    try:
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            return
        os.kill(pid, number)
        with os.fdopen(os.pidfd_open(pid)) as ended:
            if not select.select([ended], [], [], _END_SECONDS)[0]:
                os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return  # it has ended already


def begin() -> None:
    """Start the root template, unless there is one already."""
    global _root
    if SOCKET in os.environ or (_root is not None and _root.is_usable()):
        return
    end()
    _root = _Root()


def begin_for(words: list[str]) -> None:
    """Start the root template early if this command line needs one."""
    names = words and (words[0] in ("run", "resume", "plan", "sweep") or words[0].endswith(".toml"))
    if names and len(words) > 1 - words[0].endswith(".toml") and not {"-h", "--help", "--dry-run"} & {*words}:
        begin()


def keep() -> None:
    """Keep the root template after a run, for the next one, until this process ends."""
    global _is_kept
    if not _is_kept:
        _is_kept = True
        atexit.register(end)


def release() -> None:
    """End the root template, unless it is kept."""
    if not _is_kept:
        end()


def end() -> None:
    """End the root template and all that was forked from it."""
    global _root
    root, _root = _root, None
    if root is not None:
        root.end()


def connect() -> socket.socket:
    """Return a new connection to the root template, for one run."""
    inherited = os.environ.pop(SOCKET, None)
    if inherited is not None:
        connection = socket.socket(fileno=int(inherited))
        connection.set_inheritable(False)
        return connection
    begin()
    assert _root is not None
    _root.is_connected = True
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(_root.lease, [b"+"], [theirs.fileno()])
    return ours


@contextlib.contextmanager
def lent() -> Iterator[int]:
    """A descriptor of a new connection, for a child process whose variable ``SOCKET`` names it."""
    with connect() as connection:
        yield connection.fileno()


def _foreign_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def _forget() -> None:
    """In a fork of this process: the root template belongs to the parent."""
    global _root
    if _root is not None:
        _root.lease.close()
        _root = None


os.register_at_fork(after_in_child=_forget)
