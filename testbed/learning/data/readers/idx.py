"""The idx format of MNIST: a magic number with type and number of dimensions, the sizes, the values; big-endian."""

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
    """Return the array of a file, plain or compressed. Raises UserError if its length does not match its header."""
    content = data_file.unpacked(path)
    magic = bytes((0, 0, kind, dimensions))
    if content[:4] != magic:
        raise data_file.damaged(path, f"begins with {content[:4].hex()} instead of {magic.hex()}")
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise data_file.damaged(path, f"ends in its header, after {len(content)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", dimensions, 4))
    dtype = np.dtype(_TYPES[kind])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        size = " × ".join(map(str, shape))
        raise data_file.damaged(path, f"has {len(content)} bytes, but {size} values need {expected}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape)
