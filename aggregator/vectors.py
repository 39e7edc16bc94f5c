"""Arithmetic on flat float32 vectors.

Whole-vector passes, the fewest that do the job. Working block by block to spare the temporary was measured and is
slower: the allocator keeps what was freed (``testbed.cores.keep_freed_memory``), so a temporary costs no page faults.
"""

from __future__ import annotations

import math

import numpy as np

from testbed.messages import Vector


def add_scaled(target: Vector, scale: float, source: Vector) -> None:
    """target += scale · source, in place."""
    target += np.multiply(source, np.float32(scale))


def plus_scaled(base: Vector, scale: float, source: Vector) -> Vector:
    """base + scale · source, as a new vector."""
    result: Vector = np.multiply(source, np.float32(scale))
    result += base
    return result


def norm(vector: Vector) -> float:
    """Euclidean norm."""
    return math.sqrt(float(vector.dot(vector)))


@np.errstate(over="ignore")
def cosine(a: Vector, b: Vector) -> float:
    """Of the angle between two vectors; 0 where one has no direction."""
    lengths = norm(a) * norm(b)
    return max(-1.0, min(1.0, float(a.dot(b)) / lengths)) if 0 < lengths < math.inf else 0.0


@np.errstate(over="ignore")
def distance(a: Vector, b: Vector) -> float:
    """Euclidean distance; infinity if its square is above the largest float32."""
    return norm(a - b)


@np.errstate(over="ignore", invalid="ignore")
def is_finite(vector: Vector) -> bool:
    """Whether all numbers are finite. One pass: a NaN or an infinity cannot leave the sum of squares finite.

    The square root of the largest float32 counts as too large, too: such a delta is not an update.
    """
    return math.isfinite(float(vector.dot(vector)))
