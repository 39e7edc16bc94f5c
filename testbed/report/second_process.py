"""Work on both halves of a list at once: this process takes one, a fork of it the other.

Drawing is Python code, of which a process runs one thread at a time. A fork has all modules and figures already, and
returns only text. It is not relied on: what it does not return, because it could not be started or has failed, this
process does itself, and then raises the error, if there is one.

The fork has only the thread that draws. Other threads (the spinner on a terminal) may hold locks while it is made, but
only of consoles and streams, which it does not use; it ends without flushing or cleaning up what belongs to us.
"""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


def texts(work: Callable[[T], str], items: Sequence[T]) -> list[str]:
    """Return the text that ``work`` makes of each item. Where there is only one core, no process is started."""
    if len(items) < 2 or len(os.sched_getaffinity(0)) < 2:
        return [work(item) for item in items]
    found = [""] * len(items)
    with _in_fork(lambda: [work(item) for item in items[1::2]]) as answer:
        found[::2] = [work(item) for item in items[::2]]
        others = answer()
    found[1::2] = [work(item) for item in items[1::2]] if others is None else others
    return found


@contextlib.contextmanager
def _in_fork(work: Callable[[], list[str]]) -> Iterator[Callable[[], list[str] | None]]:
    """Start ``work`` in a fork. Yields a function that waits for its texts; None if there are none."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as answers:
        try:
            pid = _fork()
        except OSError:  # no more processes or no more memory
            os.close(writing)
            yield lambda: None
            return
        if pid == 0:
            _end_with(work, writing)
        os.close(writing)
        try:
            yield lambda: _decoded(answers.read())
        finally:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # somebody else has waited for it
                os.kill(pid, signal.SIGKILL)  # it has answered, or its answer is not wanted any more
                os.waitpid(pid, 0)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python ≥ 3.12, about threads: see above
        return os.fork()


def _end_with(work: Callable[[], list[str]], writing: int) -> None:
    """In the fork: write the texts and end, whatever happens; an error shows in the other process, which repeats it."""
    try:
        with os.fdopen(writing, "wb") as out:
            out.write(msgspec.msgpack.encode(work()))
    finally:
        os._exit(0)


def _decoded(answer: bytes) -> list[str] | None:
    """The texts of a complete answer; None if the fork has failed or was killed."""
    try:
        return msgspec.msgpack.decode(answer, type=list[str])
    except msgspec.DecodeError:
        return None
