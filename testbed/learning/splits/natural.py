"""As the data came about: a device has the samples of one person, role or place, and of nobody else.

LEAF (Caldas et al. 2018); AsyncFedED (Wang et al. 2022) deals FEMNIST by writers and Shakespeare by roles.

Owners are drawn at random among those with enough samples; the samples of the others are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Natural(Split):
    """Each device has the samples of one owner, drawn at random among those who made enough."""

    least: int = param(1, "samples that an owner must have made to be drawn", at_least=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        if part.owners is None:
            remedy = f"{part.owners_from}, or " if part.owners_from else ""
            raise unfit(f"this data set does not say who made its samples; {remedy}take another split")
        owners, counts = np.unique(part.owners, return_counts=True)
        able = owners[counts >= self.least]
        if len(owners) < devices:
            raise unfit(f"{len(owners)} owners made this data, and there are {devices} devices; use fewer devices")
        if len(able) < devices:
            most = int(np.sort(counts)[-devices])
            raise ParameterError(
                "least",
                f"is {self.least}; {len(able)} of {len(owners)} owners made so many samples, and there are {devices}"
                f" devices: at most {most}, or use fewer devices",
            )
        chosen = rng.choice(able, devices, replace=False)
        return [np.flatnonzero(part.owners == owner) for owner in chosen]
