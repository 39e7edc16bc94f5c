"""A small network of inverted residuals for 32×32 images.

Its blocks are those of MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381): a convolution of 1×1 that expands the
channels, one of 3×3 for each channel alone (depthwise), and one of 1×1 that contracts them again, without activation.
Widths, strides and the number of blocks are our choice. Group normalisation has 8 groups.
"""

from __future__ import annotations

import torch
from torch import nn

from testbed.learning.models.normalisation import BATCH, GROUP, normalisation

_BLOCKS = (
    (16, 1, 1),
    (24, 4, 2),
    (24, 4, 1),
    (32, 4, 2),
    (32, 4, 1),
    (64, 4, 2),
    (64, 4, 1),
)
"""Channels, expansion and stride of each block."""
_FIRST, _LAST = 16, 256
"""Channels of the first and of the last convolution."""
_GROUPS = 8


class InvertedResidual(nn.Module):
    """Expands, filters each channel, contracts; beside a shortcut if the shape does not change."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, norm: str) -> None:
        super().__init__()
        width = inputs * expansion
        layers = _convolution(inputs, width, 1, norm) if expansion > 1 else []
        layers += _convolution(width, width, 3, norm, stride=stride, groups=width)
        layers += [nn.Conv2d(width, outputs, 1, bias=False), normalisation(norm, outputs, _GROUPS)]
        self.inner = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        filtered: torch.Tensor = self.inner(images)
        return images + filtered if self.is_residual else filtered


def mobilenet(*, norm: str = GROUP, channels: int = 3, classes: int = 10) -> nn.Module:
    """96,650 parameters, and with batch normalisation 4,160 numbers in buffers, for 3×32×32 images."""
    layers, width = _convolution(channels, _FIRST, 3, norm), _FIRST
    for outputs, expansion, stride in _BLOCKS:
        layers.append(InvertedResidual(width, outputs, expansion, stride, norm))
        width = outputs
    layers += _convolution(width, _LAST, 1, norm)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_LAST, classes))


def mobilenet_bn(**sizes: int) -> nn.Module:
    """The same with batch normalisation."""
    return mobilenet(norm=BATCH, **sizes)


def _convolution(
    inputs: int, outputs: int, kernel: int, norm: str, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution, its normalisation and ReLU6."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return [convolution, normalisation(norm, outputs, _GROUPS), nn.ReLU6()]
