"""Compression of updates: a vector of float32 becomes fewer bytes, and these become a vector again.

Symbols
    d           numbers in the vector x
    M           the largest |x_i| of a block of 1024 numbers; the last block may be shorter
    s           M/127, the scale of a block
    k           max(1, ⌈F·d⌉), and at most d

Formats (all numbers are little-endian)
    float16     d × float16: x_i rounded to the nearest                                            2d bytes
    int8        ⌈d/1024⌉ × float32: the scales; then d × int8: x_i/s rounded to the nearest        d + 4⌈d/1024⌉ bytes
    topk:F      k × uint32: indices, increasing; then k × float32: the numbers at these indices    8k bytes
                the k numbers of largest |x_i|; of equal ones, those with the lower index

Readings
    Halves are rounded to the even neighbour. Every operation is an elementary one of IEEE 754, so that the same vector
    has the same bytes on every host.
    A finite number that float16 cannot hold is sent as ±65504. A scale is at least the smallest normal float32, so that
    the quantisation error is at most s/2 for tiny numbers as well, and at most what keeps 127·s finite.
    Numbers that are not finite stay so: a block with one has the scale NaN, topk sends them first. The engine rejects
    such an update, as it does without compression, which ends its ticket.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.wire.compression_method import BLOCK, CompressionMethod, blocks, method_of

_Vector: TypeAlias = npt.NDArray[np.float32]
_F2, _F4, _U4, _I1 = np.dtype("<f2"), np.dtype("<f4"), np.dtype("<u4"), np.dtype("i1")
_MOST_HALF = np.float32(65504)
_LEVELS = 127
_LEAST_SCALE = np.finfo(np.float32).tiny
_MOST_SCALE = np.nextafter(np.finfo(np.float32).max / np.float32(_LEVELS), np.float32(0))
"""127 times this is finite."""


class BadPayload(ValueError):
    """Bytes that are no update compressed by this method; the text says what is wrong."""


class Compressed:
    """A compressed vector: the name of its method, and its bytes."""

    __slots__ = ("data", "method")

    def __init__(self, method: str, data: bytes) -> None:
        self.method, self.data = method, data

    @property
    def nbytes(self) -> int:
        return len(self.data)


def compress(text: str, vector: _Vector) -> Compressed:
    """Return the vector compressed by the method that ``text`` names, which is not none."""
    method = method_of(text)
    match method.name:
        case "float16":
            data = _to_halves(vector)
        case "int8":
            data = _to_levels(vector)
        case "topk":
            data = _to_largest(vector, method.kept(vector.size))
        case _:
            raise ValueError(f"{text} does not compress")
    return Compressed(text, data)


def decompress(text: str, data: bytes | memoryview, size: int) -> _Vector:
    """Return the vector of ``size`` numbers, read-only. Raises BadPayload.

    The memory that it takes depends on ``size`` alone, whatever a peer has sent.
    """
    method = _known(text)
    if len(data) != method.nbytes(size):
        raise BadPayload(f"{text}: {len(data)} bytes, but {size} numbers have {method.nbytes(size)}")
    match method.name:
        case "float16":
            vector = np.frombuffer(data, _F2).astype(np.float32)
        case "int8":
            vector = _from_levels(data, size)
        case _:
            vector = _from_largest(data, size, method.kept(size))
    vector.flags.writeable = False
    return vector


def _known(text: str) -> CompressionMethod:
    try:
        method = method_of(text)
    except ValueError:
        raise BadPayload("unknown method of compression") from None
    if method.name == "none":
        raise BadPayload("none is no method of compression")
    return method


# ---- float16


def _to_halves(vector: _Vector) -> bytes:
    with np.errstate(over="ignore"):
        halves = vector.astype(_F2)
    too_large = np.isinf(halves) & np.isfinite(vector)
    halves[too_large] = np.copysign(_MOST_HALF, vector[too_large])
    return halves.tobytes()


# ---- int8


def _to_levels(vector: _Vector) -> bytes:
    rows = np.zeros((blocks(vector.size), BLOCK), np.float32)
    rows.reshape(-1)[: vector.size] = vector
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))  # NaN if one of the numbers is
    finite = np.isfinite(largest)
    scales = np.where(finite, np.clip(largest / np.float32(_LEVELS), _LEAST_SCALE, _MOST_SCALE), np.float32(np.nan))
    np.rint(np.divide(rows, scales[:, None], out=rows), out=rows)
    rows[~finite] = 0
    levels = np.clip(rows, -_LEVELS, _LEVELS, out=rows).reshape(-1)[: vector.size].astype(_I1)
    return scales.astype(_F4).tobytes() + levels.tobytes()


def _from_levels(data: bytes | memoryview, size: int) -> _Vector:
    scales = np.frombuffer(data, _F4, blocks(size))
    levels = np.frombuffer(data, _I1, size, offset=scales.nbytes)
    if (scales < 0).any():
        raise BadPayload("int8: a scale is below 0")
    if size and levels.min() < -_LEVELS:
        raise BadPayload(f"int8: a number is below -{_LEVELS}")
    rows = np.zeros((scales.size, BLOCK), np.float32)
    rows.reshape(-1)[:size] = levels
    with np.errstate(over="ignore", invalid="ignore"):  # a peer may send any scale; the engine judges the numbers
        rows *= scales[:, None]
    return rows.reshape(-1)[:size]


# ---- topk


def _to_largest(vector: _Vector, count: int) -> bytes:
    indices = _largest(vector, count)
    return indices.astype(_U4).tobytes() + vector[indices].astype(_F4).tobytes()


def _largest(vector: _Vector, count: int) -> npt.NDArray[np.intp]:
    """Return the indices of the ``count`` numbers of largest magnitude, increasing; equal ones by lowest index."""
    if not count:
        return np.empty(0, np.intp)
    magnitudes = np.abs(vector)
    magnitudes[np.isnan(magnitudes)] = np.inf
    least = np.partition(magnitudes, magnitudes.size - count)[magnitudes.size - count]
    above = np.flatnonzero(magnitudes > least)
    equal = np.flatnonzero(magnitudes == least)[: count - above.size]
    return np.sort(np.concatenate((above, equal)))


def _from_largest(data: bytes | memoryview, size: int, count: int) -> _Vector:
    indices = np.frombuffer(data, _U4, count)
    if count and (indices[-1] >= size or (indices[1:] <= indices[:-1]).any()):
        raise BadPayload(f"topk: the indices do not increase, or one is not below {size}")
    vector = np.zeros(size, np.float32)
    vector[indices] = np.frombuffer(data, _F4, count, offset=indices.nbytes)
    return vector
