"""Fixed label skew: each device has samples of exactly ``per_device`` labels.

Zhou et al. 2024 (EAFL), type T2, with L_num = 1, 5 and 10 of 10 labels.

Labels are assigned evenly: a device gets those that the fewest devices have so far, at random among equals. So the
numbers of devices of two labels differ by one at most, and the devices of a label share its samples equally. If
devices · L_num is less than the number of labels, some labels are not assigned, and their samples are left out; the
command ``data`` shows how many.

This split does not fill up small shares with samples of other devices: they would have other labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, demand, unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels(Split):
    """T2 of EAFL: each device has samples of exactly L_num labels, shared equally among the devices that have them."""

    per_device: int = param(1, "L_num: labels of a device", at_least=1)

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(len(part), devices)
        if not part.has_classes:
            raise unfit("the targets of this data set are values, which have no labels; use another split")
        labels, counts = np.unique(part.labels, return_counts=True)
        if self.per_device > len(labels):
            raise ParameterError(
                "per_device", f"is {self.per_device}; the data has {len(labels)} classes: at most {len(labels)}"
            )
        has = assign(devices, len(labels), self.per_device, rng)
        self._demand(labels, counts, has.sum(axis=0))
        pieces: list[list[Indices]] = [[] for _ in range(devices)]
        for column, label in enumerate(labels):
            users = np.flatnonzero(has[:, column])
            if len(users):
                members = rng.permutation(np.flatnonzero(part.labels == label))
                for device, piece in zip(users, np.array_split(members, len(users)), strict=True):
                    pieces[device].append(piece)
        return [np.sort(np.concatenate(own)) for own in pieces]

    def _demand(self, labels: Indices, counts: Indices, users: Indices) -> None:
        """Refuse a partition in which a device would have no sample of one of its labels."""
        rare = np.flatnonzero(counts < users)
        if len(rare):
            label, count, sharing = labels[rare[0]], counts[rare[0]], users[rare[0]]
            raise ParameterError(
                "per_device",
                f"is {self.per_device}, so {sharing} devices share label {label}, which has {count} samples:"
                " set it lower, or use fewer devices",
            )


def assign(
    devices: int, labels: int, each: int, rng: np.random.Generator
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return which device has which label: devices × labels, ``each`` in a row, columns as even as possible."""
    has = np.zeros((devices, labels), np.bool_)
    for device in range(devices):
        rarest = np.lexsort((rng.random(labels), has.sum(axis=0)))
        has[device, rarest[:each]] = True
    return has
