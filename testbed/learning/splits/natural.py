"""The natural split: a device has the samples of one owner, that is, of one person, role or place.

LEAF (Caldas et al. 2018); AsyncFedED (Wang et al. 2022) splits FEMNIST by writers and Shakespeare by roles.

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
    """Each device has the samples of one owner, drawn at random among those with enough samples."""

    least: int = param(1, "minimum number of samples of an owner", at_least=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        if part.owners is None:
            remedy = f"{part.owners_from}, or " if part.owners_from else ""
            raise unfit(f"this data set does not contain the owners of its samples; {remedy}use another split")
        owners, counts = np.unique(part.owners, return_counts=True)
        able = owners[counts >= self.least]
        if len(owners) < devices:
            raise unfit(f"this data set has {len(owners)} owners for {devices} devices; use fewer devices")
        if len(able) < devices:
            most = int(np.sort(counts)[-devices])
            raise ParameterError(
                "least",
                f"is {self.least}; {len(able)} of {len(owners)} owners have enough samples, for {devices} devices:"
                f" at most {most}, or use fewer devices",
            )
        chosen = rng.choice(able, devices, replace=False)
        return [np.flatnonzero(part.owners == owner) for owner in chosen]
