"""Poison: what a scripted Byzantine device does to an update before it sends it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from testbed.common.fields import Number
from testbed.profile.schema import ScriptedEvent
from testbed.profile.script import change_at
from testbed.wire.messages import Vector


class Poison(msgspec.Struct, frozen=True, array_like=True):
    """A kind of poison (``how`` of a scripted event) and its factor."""

    how: str
    factor: Number


def poison_at(script: Sequence[ScriptedEvent], moment: float) -> Poison | None:
    """Return the poison of a job whose computing ends at ``moment``; None if the script has none."""
    event = change_at(script, "poison", moment) if script else None
    if event is None:
        return None
    assert event.how is not None
    assert event.value is not None
    return Poison(event.how, event.value)


@np.errstate(over="ignore")
def poisoned(delta: Vector, poison: Poison, random: np.random.Generator) -> Vector:
    """Return the poisoned update, as a new vector. ``random`` is that of the job: the same job has the same noise.

    The noise has ``factor`` times the root mean square of the update as its standard deviation. Numbers that exceed
    float32 become infinite, and the aggregator rejects the update.
    """
    if poison.how != "noise":
        sign = -1.0 if poison.how == "sign-flip" else 1.0
        return np.multiply(delta, np.float32(sign * poison.factor))
    rms = math.sqrt(np.mean(np.square(delta, dtype=np.float64))) if delta.size else 0.0
    noise: Vector = random.standard_normal(delta.size, dtype=np.float32)
    np.multiply(noise, np.float32(poison.factor * rms), out=noise)
    np.add(noise, delta, out=noise)
    return noise
