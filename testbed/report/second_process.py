"""Work on both halves of a list at once: this process takes one, a fork of it the other.

Drawing is Python code, of which a process runs one thread at a time. A fork has all modules and figures already, and
returns only text. It is not relied on: what it does not return, because it could not be started, has failed or takes
far longer than this process took for its half, this process does itself, and then raises the error, if there is one.

The fork has only the thread that draws. Other threads (the spinner on a terminal, those of a notebook) may hold locks
while it is made. If it needs one of them it waits for ever, and is killed. It ends with this process, and without
flushing or cleaning up what belongs to us; stop signals are for this process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from typing import TypeVar

import msgspec

from testbed.common.channel import readable
from testbed.common.signals import STOP_SIGNALS
from testbed.host.cores import die_with_parent

T = TypeVar("T")

_LEAST_WAIT = 1.0
_MOST_TIMES_AS_LONG = 2.0
"""How long this process waits for the other half after its own, in seconds and as a multiple of its own time."""


def texts(work: Callable[[T], str], items: Sequence[T]) -> list[str]:
    """Return the text that ``work`` makes of each item. Where there is only one core, no process is started."""
    if len(items) < 2 or len(os.sched_getaffinity(0)) < 2:
        return [work(item) for item in items]
    found, began = [""] * len(items), time.monotonic()
    with _in_fork(lambda: [work(item) for item in items[1::2]]) as answer:
        found[::2] = [work(item) for item in items[::2]]
        others = answer(_LEAST_WAIT + _MOST_TIMES_AS_LONG * (time.monotonic() - began))
    found[1::2] = [work(item) for item in items[1::2]] if others is None else others
    return found


@contextlib.contextmanager
def _in_fork(work: Callable[[], list[str]]) -> Iterator[Callable[[float], list[str] | None]]:
    """Start ``work`` in a fork. Yields a function that waits some seconds for its texts; None if there are none."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as answers:
        try:
            pid = _fork(work, writing)
        except OSError:  # no more processes or no more memory
            yield lambda _: None
            return
        finally:
            os.close(writing)
        try:
            yield lambda seconds: _decoded(_read(answers, seconds))
        finally:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # somebody else has waited for it
                os.kill(pid, signal.SIGKILL)  # it has answered, or its answer is not wanted any more
                os.waitpid(pid, 0)


def _fork(work: Callable[[], list[str]], writing: int) -> int:
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # or Ctrl-C might unwind the fork as if it were us
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python ≥ 3.12, about threads: see above
            pid = os.fork()
        if pid == 0:
            _end_with(work, writing, parent)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _end_with(work: Callable[[], list[str]], writing: int, parent: int) -> None:
    """In the fork: write the texts and end, whatever happens; an error shows in the other process, which repeats it."""
    try:
        die_with_parent(parent)
        with os.fdopen(writing, "wb") as out:
            out.write(msgspec.msgpack.encode(work()))
    finally:
        os._exit(0)


def _read(answers: FileIO, seconds: float) -> bytes:
    """Return what was written until the end, or what there is after so many seconds."""
    limit, answer = time.monotonic() + seconds, bytearray()
    while readable([answers.fileno()], limit - time.monotonic()):
        part = answers.read(1 << 20)
        if not part:
            break
        answer += part
    return bytes(answer)


def _decoded(answer: bytes) -> list[str] | None:
    """The texts of a complete answer; None if the fork has failed or was killed."""
    try:
        return msgspec.msgpack.decode(answer, type=list[str])
    except msgspec.DecodeError:
        return None
