"""A trace that takes less room: packed by gzip when the run is over and its results are written.

Not before: a trace that is being written must be readable after a crash, up to its last line. Half a packed one is not.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

_LEVEL = 6
"""Numbers do not pack well: a higher level takes twice as long for the last percent."""
_CHUNK = 1 << 20


def pack(path: Path, told: Callable[[float], None] = lambda share: None) -> Path:
    """Make ``trace.jsonl.gz`` of ``trace.jsonl``; ``told`` hears which share is done.

    There is a whole trace at every moment: the packed one gets its name when it is complete, the plain one goes last.
    """
    packed, part = path.with_name(f"{path.name}.gz"), path.with_name(f"{path.name}.gz.part")
    size, done = path.stat().st_size, 0
    try:
        with path.open("rb") as plain, part.open("wb") as raw, gzip.GzipFile(path.name, "wb", _LEVEL, raw) as file:
            while chunk := plain.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                told(done / size)
        part.replace(packed)
    finally:
        part.unlink(missing_ok=True)
    path.unlink()
    return packed
