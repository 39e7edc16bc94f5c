"""Packing a trace with gzip, after the run has ended and its results are written.

Not earlier: a trace must stay readable up to its last line if the run crashes, and half a gzip file is not.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

_LEVEL = 6
"""A higher level takes twice as long and saves one percent."""
_CHUNK = 1 << 20


def pack(path: Path, progress: Callable[[float], None] = lambda share: None) -> Path:
    """Replace ``trace.jsonl`` by ``trace.jsonl.gz``; returns its path. ``progress`` receives the share that is done.

    A complete trace exists at every moment: the packed file gets its name when it is complete, then the plain one is
    removed.
    """
    packed, part = path.with_name(f"{path.name}.gz"), path.with_name(f"{path.name}.gz.part")
    size, done = path.stat().st_size, 0
    try:
        with path.open("rb") as plain, part.open("wb") as raw, gzip.GzipFile(path.name, "wb", _LEVEL, raw) as file:
            while chunk := plain.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(done / size)
        part.replace(packed)
    finally:
        part.unlink(missing_ok=True)
    path.unlink()
    return packed
