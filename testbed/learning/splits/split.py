"""The base class of splits, and functions that they share.

A user's own split is a dataclass derived from :class:`Split`, named in a profile as ``module:Class``. A profile may set
its fields, which :func:`testbed.common.parameters.param` declares. A split must take all random numbers from the
generator that is passed to it: the same seed gives the same partition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError
from testbed.learning.data.dataset import Indices, Subset


class Split(ABC):
    """Assigns training samples to devices."""

    __slots__ = ()

    @abstractmethod
    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        """Return the sample numbers of each device in ascending order. Raises ParameterError if that is impossible."""


def unfit(problem: str) -> ParameterError:
    """Return an error about the choice of this split, as opposed to one of its parameters."""
    return ParameterError("name", f"does not fit: {problem}")


def demand(samples: int, devices: int) -> None:
    """Raise ParameterError unless there is a sample for each device."""
    if samples < devices:
        raise unfit(f"{samples} training samples cannot be split over {devices} devices; use fewer devices")


def cut(samples: Indices, sizes: npt.ArrayLike) -> list[Indices]:
    """Return consecutive pieces of these sizes, each in ascending order. The rest is left out."""
    ends = np.cumsum(np.asarray(sizes, np.int64))
    return [np.sort(piece) for piece in np.split(samples, ends)[:-1]]


def sorted_by_label(samples: Indices, part: Subset) -> Indices:
    """Return the samples sorted by class, or by (the first) value. The order within a label is kept."""
    first = np.reshape(part.targets, (len(part), -1))[:, 0]
    return samples[np.argsort(first[samples], kind="stable")]


def equal(samples: int, devices: int) -> Indices:
    """Return sizes of shares that differ by one at most; the first ones are larger."""
    return samples // devices + (np.arange(devices) < samples % devices).astype(np.int64)
