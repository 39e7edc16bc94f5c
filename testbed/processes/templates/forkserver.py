"""A run template: forks the processes of one run on request, and reports the exit code of each.

Theory of operation. A run has several run templates, all of them copies of one warm template, because fork() of a
process with torch takes milliseconds and is serial within one process. Each serves one socket, whose other end only
the launcher has: when the launcher ends for any reason, the socket is closed, the template ends, and the kernel kills
its children (PR_SET_PDEATHSIG). The template has one thread and no ZeroMQ context. SIGCHLD wakes it from its wait, so
that it needs no descriptor for each child, which all later children would inherit. A report of an exit follows the
report of the fork, because both go over one socket in order.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import msgspec

from testbed.common.channel import Channel, close_all, readable
from testbed.host.cores import die_with_parent


class ForkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A function call that a new process makes."""

    name: str
    call: bytes
    """The function and its arguments, pickled: only the launcher can write to the socket."""
    descriptors: int = 0
    """How many descriptors are the last arguments of the call. They come with the batch."""


class ForkBatch(msgspec.Struct, frozen=True, kw_only=True):
    orders: tuple[ForkOrder, ...]


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    name: str
    pid: int = 0
    problem: str = ""
    """Why the process could not be forked."""


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pid: int
    code: int
    """As in subprocess: -9 after SIGKILL."""


ForkReport = Forked | Exited


def order(name: str, function: Callable[..., object], *arguments: object, descriptors: int = 0) -> ForkOrder:
    """Make an order. Processes import the module of ``function`` and of the arguments' classes."""
    return ForkOrder(name=name, call=bytes(ForkingPickler.dumps((function, arguments))), descriptors=descriptors)


def serve(end: socket.socket) -> None:
    """Fork processes until the launcher closes its end."""
    channel = Channel(end, ForkBatch)
    waking, woken = socket.socketpair()
    for side in (waking, woken):
        side.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler of ours, or nothing is written to the descriptor
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    own = (channel.fileno(), woken.fileno(), waking.fileno())
    try:
        while True:
            ready = readable(own[:2])
            if woken.fileno() in ready:
                woken.recv(4096)
                _report_exits(channel)
            if channel.fileno() in ready:
                batch, descriptors = channel.receive()
                _fork_all(batch, descriptors, channel, own)
                close_all(descriptors)
    except (EOFError, BrokenPipeError):
        return


def _fork_all(batch: ForkBatch, descriptors: Sequence[int], channel: Channel[ForkBatch], own: Sequence[int]) -> None:
    left = iter(descriptors)
    for work in batch.orders:
        given = tuple(itertools.islice(left, work.descriptors))
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            channel.send(Forked(name=work.name, problem=repr(error)))
            continue
        if pid == 0:
            close_all([*own, *(each for each in descriptors if each not in given)])
            _become(work, parent, given)
        channel.send(Forked(name=work.name, pid=pid))


def _report_exits(channel: Channel[ForkBatch]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        channel.send(Exited(pid=pid, code=os.waitstatus_to_exitcode(status)))


def _become(work: ForkOrder, parent: int, descriptors: tuple[int, ...]) -> NoReturn:
    """Make the call in this process, and end it without the exit handlers of its parents."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(parent)
        function, arguments = ForkingPickler.loads(work.call)
        function(*arguments, *descriptors)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001  the last resort of a process
        traceback.print_exc()
    finally:
        _flush(sys.stdout, sys.stderr)
        os._exit(code)


def _flush(*streams: Any) -> None:
    for stream in streams:
        try:
            stream.flush()
        except (OSError, ValueError):  # a full disk, or a closed stream
            continue
