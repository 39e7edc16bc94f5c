"""The format idx of MNIST: a magic number that names type and dimensions, the dimensions, the values; big-endian."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.learning.data.readers import data_file

_TYPES = {8: ">u1", 12: ">i4"}
BYTES, INTS = 8, 12


def read(path: Path, kind: int, dimensions: int) -> npt.NDArray[Any]:
    """The array of a file, plain or packed by gzip; exactly as long as its header says."""
    content = data_file.unpacked(path)
    magic = bytes((0, 0, kind, dimensions))
    if content[:4] != magic:
        raise data_file.damaged(path, f"begins with {content[:4].hex()}; this idx file begins with {magic.hex()}")
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise data_file.damaged(path, f"is cut off in its header, after {len(content)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, 4))
    dtype = np.dtype(_TYPES[kind])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        size = " × ".join(map(str, shape))
        raise data_file.damaged(path, f"has {len(content)} bytes, and {size} values take {expected}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape)
