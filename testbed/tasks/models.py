"""Neural networks by name."""

from __future__ import annotations

import torch
from torch import nn


def build(name: str, seed: int) -> nn.Module:
    """The network ``name``, its weights drawn from ``seed`` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _BUILDERS[name]()


def _small_cnn() -> nn.Module:
    """6,090 parameters, for 8×8 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def _cnn() -> nn.Module:
    """21,840 parameters, for 28×28 images: the CNN of the AUDG/PSURDG paper."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10),
    )  # fmt: skip


_BUILDERS = {"small-cnn": _small_cnn, "cnn": _cnn}
