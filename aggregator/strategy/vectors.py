"""Arithmetic on flat vectors, block by block.

Intermediate results stay in the cache, and only the result is allocated. Beyond 32 MB glibc maps the memory of each
allocation again, so a temporary copy of a large model costs more page faults than arithmetic. A small model is one
block.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.wire.messages import Vector

Sum: TypeAlias = npt.NDArray[np.float64]
"""A sum that grows during the whole run. It is in double precision because rounding errors add up."""

_BLOCK = 65536
"""Numbers; 256 KB, which fits into a core's own cache."""


@functools.lru_cache(maxsize=8)
def _blocks(size: int, kind: np.dtype[Any]) -> tuple[tuple[slice, npt.NDArray[Any]], ...]:
    """Return the parts of a vector, each with a scratch buffer. All parts and all calls share the buffer."""
    scratch = np.empty(min(size, _BLOCK), kind)
    parts = (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))
    return tuple((part, scratch[: part.stop - part.start]) for part in parts)


def zero_sum(like: Vector) -> Sum:
    return np.zeros(like.shape, np.float64)


def add_scaled(target: Vector | Sum, scale: float, source: Vector) -> None:
    """target += scale · source, in place."""
    factor = target.dtype.type(scale)
    for part, product in _blocks(target.size, target.dtype):
        np.multiply(source[part], factor, out=product)
        target[part] += product


def scaled(source: Sum, scale: float) -> Vector:
    """scale · source, as a new vector."""
    result = np.empty(source.shape, np.float32)
    np.multiply(source, scale, out=result, casting="same_kind")
    return result


def plus_scaled(base: Vector, scale: float, source: Vector | Sum) -> Vector:
    """base + scale · source, as a new vector."""
    result, factor = np.empty_like(base), source.dtype.type(scale)
    for part, product in _blocks(base.size, source.dtype):
        np.multiply(source[part], factor, out=product)
        np.add(base[part], product, out=result[part], casting="same_kind")
    return result


def mixed(model: Vector, alpha: float, base: Vector, delta: Vector) -> Vector:
    """(1 − α) · model + α · (base + delta), as a new vector."""
    result, new, rest = np.empty_like(model), np.float32(alpha), np.float32(1 - alpha)
    for part, old in _blocks(model.size, model.dtype):
        local = np.add(base[part], delta[part], out=result[part])
        local *= new
        np.multiply(model[part], rest, out=old)
        local += old
    return result


def norm(vector: Vector) -> float:
    """Euclidean norm."""
    return math.sqrt(float(vector.dot(vector)))


@np.errstate(over="ignore")
def cosine(a: Vector, b: Vector) -> float:
    """Cosine of the angle between two vectors; 0 if one of them is zero or its norm is not finite."""
    lengths = norm(a) * norm(b)
    return max(-1.0, min(1.0, float(a.dot(b)) / lengths)) if 0 < lengths < math.inf else 0.0


@np.errstate(over="ignore")
def distance(a: Vector, b: Vector) -> float:
    """Euclidean distance; infinity if its square exceeds float32."""
    total = 0.0
    for part, difference in _blocks(a.size, a.dtype):
        np.subtract(a[part], b[part], out=difference)
        total += float(difference.dot(difference))
    return math.sqrt(total)


@np.errstate(over="ignore", invalid="ignore")
def is_finite(vector: Vector) -> bool:
    """Whether all numbers are finite. One pass: with a NaN or an infinity, the sum of squares is not finite.

    A vector whose sum of squares exceeds float32 counts as not finite: such a delta is no usable update.
    """
    return math.isfinite(float(vector.dot(vector)))
