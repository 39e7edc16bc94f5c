"""A task that can be computed by hand: seven samples of three inputs, two classes, a linear model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import nn

from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.training.network_task import NetworkTask

INPUTS = np.array([[1, 0, 2], [0, 1, -1], [2, 2, 0], [-1, 0, 1], [0.5, -1, 0], [1, 1, 1], [0, 0, 3]], dtype=np.float32)
LABELS = np.array([0, 1, 1, 0, 1, 0, 1], dtype=np.int64)
SHARD = np.array([1, 2, 4, 5, 6])


class TinyTask(NetworkTask):
    """Records its batches."""

    SIZE = 8

    def __init__(self) -> None:
        part = Subset(inputs=INPUTS, targets=LABELS)
        super().__init__(module=nn.Linear(3, 2), data=DataSet(train=part, test=part), shards=[SHARD])
        self.batches: list[list[int]] = []

    def gradient(self, samples: npt.NDArray[np.int64]) -> float:
        self.batches.append(samples.tolist())
        return super().gradient(samples)
