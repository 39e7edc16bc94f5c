"""A task for any number of devices: everyone has 64 digits, so that a batch is 32 however many they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.tasks.digits import Digits
from testbed.tasks.task import Task

_SAMPLES = 64


@dataclass(frozen=True, kw_only=True)
class SharedDigits:
    """The digits and the 21,840-parameter CNN, samples shared between devices."""

    def open(self, devices: int, seed: int) -> Task:
        task = Digits(model="cnn", split="iid").open(1, seed)
        rng = np.random.default_rng(seed)
        task.shards = [rng.choice(task.shards[0], _SAMPLES, replace=False) for _ in range(devices)]
        return task
