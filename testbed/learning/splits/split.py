"""What a split is, what it may count on, and what is said when it does not fit the data.

A split of your own is a dataclass derived from :class:`Split`, named in a profile as ``module:Class``; its fields, made
by :func:`testbed.common.parameters.param`, are what the profile may set. It draws from the generator that it is given and from
nothing else: the same seed gives the same split.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError
from testbed.learning.data.dataset import Indices, Subset


class Split(ABC):
    """How training samples are dealt to devices."""

    __slots__ = ()

    @abstractmethod
    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        """Sample numbers in ascending order, for each device. Raises ParameterError if the data does not allow it."""


def unfit(problem: str) -> ParameterError:
    """An error about the choice of this split, and not about one of its parameters."""
    return ParameterError("name", f"does not fit: {problem}")


def demand(samples: int, devices: int) -> None:
    """At least one sample for each device."""
    if samples < devices:
        raise unfit(f"{samples} training samples cannot be split over {devices} devices; use fewer devices")


def cut(samples: Indices, sizes: npt.ArrayLike) -> list[Indices]:
    """Consecutive pieces of these sizes, each in ascending order. What is left over goes to nobody."""
    ends = np.cumsum(np.asarray(sizes, np.int64))
    return [np.sort(piece) for piece in np.split(samples, ends)[:-1]]


def sorted_by_label(samples: Indices, part: Subset) -> Indices:
    """By class, or by value; by the first of several. Samples of one label stay in the order that they have."""
    first = np.reshape(part.targets, (len(part), -1))[:, 0]
    return samples[np.argsort(first[samples], kind="stable")]


def equal(samples: int, devices: int) -> Indices:
    """Sizes of shares that differ by one at most; the first ones are the larger ones."""
    return samples // devices + (np.arange(devices) < samples % devices).astype(np.int64)
