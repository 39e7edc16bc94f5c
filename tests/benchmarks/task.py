"""A task for any number of devices: each has 64 digits, so that a batch is always 32."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from testbed.learning.data.dataset import DataSet, Indices
from testbed.learning.tasks.digits import Digits
from testbed.learning.tasks.setting import Setting

_SAMPLES = 64


@dataclass(kw_only=True)
class SharedDigits(Digits):
    """The digits and the 21,840-parameter CNN, samples shared between devices."""

    model: str = "cnn"

    def assign(self, data: DataSet, setting: Setting) -> tuple[list[Indices], Indices]:
        rng = np.random.default_rng(setting.data_seed)
        shards = [rng.choice(len(data.train), _SAMPLES, replace=False) for _ in range(setting.devices)]
        return shards, np.arange(len(data.test))
