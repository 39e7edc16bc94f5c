"""A data set as arrays: training samples and test samples. No torch here: splits work without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Inputs(Protocol):
    """Samples by their numbers: an array, or an object that makes an array of the requested samples."""

    def __len__(self) -> int: ...

    def __getitem__(self, samples: Indices, /) -> npt.NDArray[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """The training samples or the test samples."""

    inputs: Inputs
    targets: npt.NDArray[Any]
    """Class numbers, from 0 unless the loss of the task needs others; or values (float32)."""
    owners: npt.NDArray[Any] | None = None
    """The owner of each sample, as a number; the natural split uses it."""
    owners_from: str = ""
    """How to obtain the owners if they are unknown, for an error."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def has_classes(self) -> bool:
        return self.targets.ndim == 1 and self.targets.dtype.kind in "iub"

    @property
    def labels(self) -> Indices:
        """Class numbers from 0. Values have no classes: they are all in one."""
        if not self.has_classes:
            return np.zeros(len(self.targets), np.int64)
        labels = np.asarray(self.targets, np.int64)
        return labels if labels.min(initial=0) >= 0 else np.unique(labels, return_inverse=True)[1]  # such as ±1


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Training and test samples, and the meaning of their numbers."""

    train: Subset
    test: Subset
    classes: tuple[str, ...] = ()
    """Names of the classes; empty if targets are values."""
    owners: tuple[str, ...] = ()
    """Names of the owners."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    """By channel, in the unit of the stored inputs: a network gets (input − mean) ÷ std. Empty: unchanged inputs."""
    sha256: str = ""
    """Of what was read from files; empty if it is not known (``testbed.learning.data.data_digest``)."""
