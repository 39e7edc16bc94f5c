"""Arithmetic on flat vectors, block by block.

Intermediate results stay in the cache, and only the result is allocated. Beyond 32 MB glibc maps the memory of each
allocation again, so a temporary copy of a large model costs more page faults than arithmetic. A small model is one
block.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.wire.messages import Vector

Sum: TypeAlias = npt.NDArray[np.float64]
"""A sum that grows during the whole run. It is in double precision because rounding errors add up."""

_BLOCK = 65536
"""Numbers; 256 KB, which fits into a core's own cache."""

_SORT_BLOCK = 16384
"""Numbers of each vector that are sorted at once."""

_DOT_BLOCK = 16384
"""Numbers whose products are added in single precision: the sum of so many is exact to about six digits."""


@functools.lru_cache(maxsize=8)
def _scratch(size: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.empty(size, kind)


def _blocks(kind: np.dtype[Any], *vectors: npt.NDArray[Any]) -> list[tuple[npt.NDArray[Any], ...]]:
    """Return the parts of vectors of one size, block by block, each block after a scratch buffer of type ``kind``.

    All blocks and all calls share the buffer. A small vector is a block as it is.
    """
    size = vectors[0].size
    if size <= _BLOCK:
        return [(_scratch(size, kind), *vectors)]
    scratch = _scratch(_BLOCK, kind)
    return [
        (scratch[: size - start], *[vector[start : start + _BLOCK] for vector in vectors])
        for start in range(0, size, _BLOCK)
    ]


def zero_sum(like: Vector) -> Sum:
    return np.zeros(like.shape, np.float64)


def add_scaled(target: Vector | Sum, scale: float, source: Vector) -> None:
    """target += scale · source, in place."""
    factor = target.dtype.type(scale)
    for product, total, part in _blocks(target.dtype, target, source):
        np.multiply(part, factor, out=product)
        np.add(total, product, out=total)


def scaled(source: Sum, scale: float) -> Vector:
    """scale · source, as a new vector."""
    result = np.empty(source.shape, np.float32)
    np.multiply(source, scale, out=result, casting="same_kind")
    return result


def plus_scaled(base: Vector, scale: float, source: Vector | Sum) -> Vector:
    """base + scale · source, as a new vector."""
    result, factor = np.empty_like(base), source.dtype.type(scale)
    for product, total, old, part in _blocks(source.dtype, result, base, source):
        np.multiply(part, factor, out=product)
        np.add(old, product, out=total, casting="same_kind")
    return result


def mixed(model: Vector, alpha: float, base: Vector, delta: Vector) -> Vector:
    """(1 − α) · model + α · (base + delta), as a new vector."""
    result, new, rest = np.empty_like(model), np.float32(alpha), np.float32(1 - alpha)
    for kept, local, old, start, change in _blocks(model.dtype, result, model, base, delta):
        np.add(start, change, out=local)
        np.multiply(local, new, out=local)
        np.multiply(old, rest, out=kept)
        np.add(local, kept, out=local)
    return result


def _dot(a: Vector, b: Vector) -> float:
    """a · b. The products of a block are added in single precision, the blocks in double.

    In single precision alone, the norm of 9 million numbers was off by 4e-4. (``vdot`` is ``dot`` without numpy's
    warning about an overflow.)
    """
    starts = range(0, a.size, _DOT_BLOCK)
    return sum(float(np.vdot(a[start : start + _DOT_BLOCK], b[start : start + _DOT_BLOCK])) for start in starts)


def norm(vector: Vector) -> float:
    """Euclidean norm."""
    return math.sqrt(_dot(vector, vector))


@np.errstate(over="ignore")
def cosine(a: Vector, b: Vector) -> float:
    """Cosine of the angle between two vectors; 0 if one of them is zero or its norm is not finite."""
    lengths = norm(a) * norm(b)
    return max(-1.0, min(1.0, _dot(a, b) / lengths)) if 0 < lengths < math.inf else 0.0


@np.errstate(over="ignore")
def distance(a: Vector, b: Vector) -> float:
    """Euclidean distance; infinity if its square exceeds float32."""
    total = 0.0
    for difference, one, other in _blocks(a.dtype, a, b):
        np.subtract(one, other, out=difference)
        total += _dot(difference, difference)
    return math.sqrt(total)


def sum_of_squares(vector: Vector) -> float:
    """The square of the norm, in one pass. It is not finite if one of the numbers is a NaN or an infinity.

    Neither is it if that of a block exceeds float32: such a delta is no usable update.
    """
    return _dot(vector, vector)


def add_squares(target: Sum, scale: float, source: Vector) -> None:
    """target += scale · source², number by number, in place."""
    for square, total, part in _blocks(target.dtype, target, source):
        np.multiply(part, part, out=square, dtype=target.dtype)
        np.multiply(square, scale, out=square)
        np.add(total, square, out=total)


def approach_squares(target: Sum, scale: float, source: Vector) -> None:
    """target −= scale · source² · sign(target − source²), number by number, in place."""
    for square, total, part in _blocks(target.dtype, target, source):
        np.multiply(part, part, out=square, dtype=target.dtype)
        direction = np.sign(total - square)
        np.multiply(square, scale, out=square)
        np.multiply(square, direction, out=square)
        np.subtract(total, square, out=total)


def plus_ratio(base: Vector, scale: float, above: Vector, below: Sum, floor: float) -> Vector:
    """base + scale · above / (√below + floor), number by number, as a new vector."""
    result = np.empty_like(base)
    for ratio, total, old, numerator, squares in _blocks(below.dtype, result, base, above, below):
        np.sqrt(squares, out=ratio)
        np.add(ratio, floor, out=ratio)
        np.divide(numerator, ratio, out=ratio)
        np.multiply(ratio, scale, out=ratio)
        np.add(old, ratio, out=total, casting="same_kind")
    return result


def trimmed_mean(vectors: Sequence[Vector], cut: int) -> tuple[Vector, list[float]]:
    """Return, in each coordinate, the mean without the ``cut`` smallest and the ``cut`` largest values.

    Also return, for each vector, the number of its values that were kept; of equal values, all count as kept.
    """
    result, last = np.empty_like(vectors[0]), len(vectors) - 1 - cut
    kept = [0.0 for _ in vectors]
    for start in range(0, result.size, _SORT_BLOCK):
        parts = [vector[start : start + _SORT_BLOCK] for vector in vectors]
        rows = _in_order(parts)
        np.mean(rows[cut : last + 1], axis=0, out=result[start : start + _SORT_BLOCK])
        for i, part in enumerate(parts):
            kept[i] += np.count_nonzero((rows[cut] <= part) & (part <= rows[last]))
    return result, kept


def _in_order(parts: Sequence[Vector]) -> npt.NDArray[np.float32]:
    """Return the rows with each column sorted, by odd-even transposition.

    It compares whole rows, which takes a small part of the time that numpy needs to sort many short columns.
    """
    rows = np.array(parts, np.float32)
    smaller = np.empty_like(rows[0])
    for turn in range(len(rows)):
        for i in range(turn % 2, len(rows) - 1, 2):
            np.minimum(rows[i], rows[i + 1], out=smaller)
            np.maximum(rows[i], rows[i + 1], out=rows[i + 1])
            rows[i] = smaller
    return rows
