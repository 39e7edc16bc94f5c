"""A data set as arrays: samples to train with and samples to test with. No torch here: splits are made without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Inputs(Protocol):
    """Samples by their numbers: an array, perhaps memory-mapped, or what makes one of the samples asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, samples: Indices, /) -> npt.NDArray[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """Samples for one purpose."""

    inputs: Inputs
    targets: npt.NDArray[Any]
    """Classes as whole numbers, from 0 unless the task's own loss wants others; or values (float32)."""
    owners: npt.NDArray[Any] | None = None
    """Who made each sample, as a number; what the natural split goes by."""
    owners_from: str = ""
    """Where nobody says who: what to do to know it, for an error."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def has_classes(self) -> bool:
        return self.targets.ndim == 1 and self.targets.dtype.kind in "iub"

    @property
    def labels(self) -> Indices:
        """Class numbers from 0. Values have no classes: they are all of one."""
        if not self.has_classes:
            return np.zeros(len(self.targets), np.int64)
        labels = np.asarray(self.targets, np.int64)
        return labels if labels.min(initial=0) >= 0 else np.unique(labels, return_inverse=True)[1]  # ±1, say


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Both parts, and what their numbers mean."""

    train: Subset
    test: Subset
    classes: tuple[str, ...] = ()
    """Names of the classes; empty where targets are values."""
    owners: tuple[str, ...] = ()
    """Names of the owners."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    """By channel, in the unit of the stored inputs: a network is fed (input − mean) ÷ std. Empty: as they are."""
