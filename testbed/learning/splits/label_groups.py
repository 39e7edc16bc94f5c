"""Label skew by groups: labels are divided into groups, and each device has samples of one group only.

For strategies that search for devices with similar data, as EAFL does: it is known which devices belong together.

The sizes of two groups of labels, or of devices, differ by one at most. Labels and devices are assigned to groups at
random. The devices of a group share its samples equally.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, demand, unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGroups(Split):
    """Groups of devices, each with labels of its own."""

    groups: int = param(4, "groups of labels, and of devices", at_least=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(len(part), devices)
        if not part.has_classes:
            raise unfit("the targets of this data set are values, which have no labels; use another split")
        labels = np.unique(part.labels)
        most = min(len(labels), devices)
        if self.groups > most:
            problem = f"is {self.groups}; the data has {len(labels)} classes, for {devices} devices: at most {most}"
            raise ParameterError("groups", problem)
        shards: list[Indices] = [np.zeros(0, np.int64)] * devices
        group_of = rng.permutation(np.arange(devices) % self.groups)
        for group, own in enumerate(np.array_split(rng.permutation(labels), self.groups)):
            users, members = np.flatnonzero(group_of == group), np.flatnonzero(np.isin(part.labels, own))
            if len(members) < len(users):
                problem = f"is {self.groups}; {len(users)} devices of a group share {len(members)} samples"
                raise ParameterError("groups", f"{problem}: set it lower, or use fewer devices")
            for device, piece in zip(users, np.array_split(rng.permutation(members), len(users)), strict=True):
                shards[device] = np.sort(piece)
        return shards
