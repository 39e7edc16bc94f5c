"""Arithmetic on flat float32 vectors, without temporaries as large as the model."""

from __future__ import annotations

import math

import numpy as np

from testbed.messages import Vector

_BLOCK = 1 << 16  # 256 KiB of float32: stays in a core's second-level cache


def add_scaled(target: Vector, scale: float, source: Vector) -> None:
    """target += scale · source, in place."""
    if target.size <= _BLOCK:
        target += np.multiply(source, np.float32(scale))
        return
    scratch = np.empty(_BLOCK, np.float32)
    for start in range(0, target.size, _BLOCK):
        part = source[start : start + _BLOCK]
        place = target[start : start + _BLOCK]
        block = scratch[: part.size]
        np.multiply(part, np.float32(scale), out=block)
        place += block


def plus_scaled(base: Vector, scale: float, source: Vector) -> Vector:
    """base + scale · source, as a new vector."""
    result = np.multiply(source, np.float32(scale))
    result += base
    return result


def norm(vector: Vector) -> float:
    """Euclidean norm."""
    return math.sqrt(float(np.dot(vector, vector)))


def distance(a: Vector, b: Vector) -> float:
    """Euclidean distance, block by block; infinity if its square is above the largest float32."""
    total = 0.0
    with np.errstate(over="ignore"):
        for start in range(0, a.size, _BLOCK):
            difference = a[start : start + _BLOCK] - b[start : start + _BLOCK]
            total += float(np.dot(difference, difference))
    return math.sqrt(total)


@np.errstate(over="ignore", invalid="ignore")
def is_finite(vector: Vector) -> bool:
    """Whether all numbers are finite. One pass: a NaN or an infinity cannot leave the sum of squares finite.

    The square root of the largest float32 counts as too large, too: such a delta is not an update.
    """
    return math.isfinite(float(vector.dot(vector)))
