"""The length of a trace at one moment, and the hash of what it contains up to there.

A checkpoint stores the mark of its moment. Lines behind it may be missing, torn or damaged, because ``resume`` moves
them to another file; the bytes before it must be those that were written (ADR 19). The writer keeps a running hash of
what it appends, so that a mark costs the aggregator a microsecond, however long the trace is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMark:
    bytes: int
    sha256: str
    """The hash of the first ``bytes`` bytes, in hexadecimal digits."""


def hash_of(path: Path, size: int) -> hashlib._Hash:
    """Return the running SHA-256 of the first ``size`` bytes of a file; of fewer, if it is shorter."""
    running = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (chunk := file.read(min(size, _CHUNK))):
            running.update(chunk)
            size -= len(chunk)
    return running


def mark_of(path: Path, size: int) -> TraceMark:
    """Return the mark of a trace that ends after ``size`` bytes."""
    return TraceMark(bytes=size, sha256=hash_of(path, size).hexdigest())
