"""Layers that normalise the channels of images: over a batch, or over groups of channels of each sample."""

from __future__ import annotations

from torch import nn

BATCH, GROUP = "batch", "group"


def normalisation(norm: str, channels: int, groups: int) -> nn.Module:
    """Return a layer with a weight and a bias for each channel.

    Batch normalisation also stores a mean and a variance for each channel, and a counter of batches.
    """
    return nn.BatchNorm2d(channels) if norm == BATCH else nn.GroupNorm(groups, channels)
