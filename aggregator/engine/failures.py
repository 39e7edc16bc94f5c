"""What ends a run because of its strategy. The text of each failure is a sentence for the user."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from testbed.common.errors import RunFailed
from testbed.wire.messages import Vector

_MOST_NAMED = 8
"""Updates that a sentence names. A version may have thousands of them."""


class BadDecision(RunFailed):
    """A strategy decided, or asked for, something impossible."""


class Stalled(RunFailed):
    """A strategy waits for an event that cannot come: no device is busy and no wake is set."""

    def __init__(self, strategy: str, event: str) -> None:
        super().__init__(f"{strategy} stalled after {event}: devices are present, none is busy, no wake is set")


class ModelNotFinite(RunFailed):
    """A strategy made a model with a NaN or an infinity: no device can train on it."""

    def __init__(self, strategy: str, version: int, model: Vector, updates: Mapping[int, str]) -> None:
        """``updates``: ticket of each update in this version → its device; empty if the ticket had ended before."""
        super().__init__(
            f"{strategy} made a model that is not finite: {first_bad_number(model)} in version {version},"
            f" {_in_words(updates)}; lower training.lr, set aggregator.clip, or correct the strategy"
        )


def first_bad_number(model: Vector) -> str:
    """Name the first number of a model that is not finite."""
    index = int(np.flatnonzero(~np.isfinite(model))[0])
    return f"number {index} of {model.size} is {model[index]}"


def _in_words(updates: Mapping[int, str]) -> str:
    named = [
        f"ticket {ticket} of {device}" if device else f"ticket {ticket} (used again)"
        for ticket, device in itertools.islice(updates.items(), _MOST_NAMED)
    ]
    if len(updates) > len(named):
        named.append(f"{len(updates) - len(named)} more")
    return f"whose updates are {', '.join(named)}" if named else "which has no updates"
