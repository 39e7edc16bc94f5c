"""Label skew: each device has samples of exactly ``per_device`` labels, drawn for each device by itself.

Li, Diao, Chen, He: Federated Learning on Non-IID Data Silos: An Experimental Study. ICDE 2022, arXiv:2102.02079,
"quantity-based label imbalance", #C = k. How device i gets its labels, of L:

    random: k different labels at random
    first-deterministic: label i mod L, and k − 1 others at random (as in the authors' program)
    deterministic: labels i, i + 1, …, i + k − 1, each mod L

The devices of a label share its samples equally; labels that no device has are left out. PathologicalPartitioner of
flwr-datasets. The split ``labels`` has as many labels on each device, and each label on as many devices as the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits.split import Split, demand, unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Pathological(Split):
    """Each device has samples of exactly k labels, drawn for each device by itself."""

    per_device: int = param(2, "k: labels of a device", at_least=1)
    assignment: str = param(
        "random",
        "random: k labels at random; first-deterministic: the first by the number of the device; deterministic: all",
        choices=("random", "first-deterministic", "deterministic"),
    )

    def assign(self, part: Subset, devices: int, rng: np.random.Generator) -> list[Indices]:
        demand(len(part), devices)
        if not part.has_classes:
            raise unfit("the targets of this data set are values, which have no labels; use another split")
        labels, counts = np.unique(part.labels, return_counts=True)
        if self.per_device > len(labels):
            raise ParameterError(
                "per_device", f"is {self.per_device}; the data has {len(labels)} classes: at most {len(labels)}"
            )
        has = np.stack([self._labels_of(device, len(labels), rng) for device in range(devices)])
        pieces: list[list[Indices]] = [[] for _ in range(devices)]
        for column, label in enumerate(labels):
            users = np.flatnonzero((has == column).any(axis=1))
            if len(users) > counts[column]:
                raise ParameterError(
                    "per_device",
                    f"is {self.per_device}, so {len(users)} devices share label {label}, which has {counts[column]}"
                    " samples: set it lower, or use fewer devices",
                )
            if len(users):
                members = rng.permutation(np.flatnonzero(part.labels == label))
                for device, piece in zip(users, np.array_split(members, len(users)), strict=True):
                    pieces[device].append(piece)
        return [np.sort(np.concatenate(own)) for own in pieces]

    def _labels_of(self, device: int, labels: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        if self.assignment == "deterministic":
            return (device + np.arange(self.per_device)) % labels
        if self.assignment == "random":
            return rng.choice(labels, self.per_device, replace=False)
        others = np.delete(np.arange(labels), device % labels)
        return np.append(rng.choice(others, self.per_device - 1, replace=False), device % labels)
