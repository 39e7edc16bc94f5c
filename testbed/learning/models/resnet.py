"""ResNet-18 for 32×32 images (He et al.: Deep Residual Learning for Image Recognition. CVPR 2016, arXiv:1512.03385).

In its usual form for CIFAR: the first convolution is 3×3 with stride 1, and no pooling follows. Group normalisation has
32 groups, and its weights at the end of a block begin with 0, as in Wu and He (2018, arXiv:1803.08494): with 1, a few
steps of the usual learning rates diverge.
"""

from __future__ import annotations

import torch
from torch import nn

from testbed.learning.models.normalisation import BATCH, GROUP, normalisation

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels, and the stride of the first of two blocks."""
_GROUPS = 32


class ResidualBlock(nn.Module):
    """Two convolutions of 3×3 beside a shortcut, which is a convolution of 1×1 if the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.first_norm = normalisation(norm, outputs, _GROUPS)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = normalisation(norm, outputs, _GROUPS)
        if isinstance(self.second_norm, nn.GroupNorm):
            nn.init.zeros_(self.second_norm.weight)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            convolution = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(convolution, normalisation(norm, outputs, _GROUPS))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.first_norm(self.first(images)))
        return torch.relu(self.second_norm(self.second(inner)) + self.shortcut(images))


def resnet18(*, norm: str = GROUP, channels: int = 3, classes: int = 10) -> nn.Module:
    """11,173,962 parameters, and with batch normalisation 9,600 numbers in buffers, for 3×32×32 images."""
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 3, padding=1, bias=False),
        normalisation(norm, 64, _GROUPS),
        nn.ReLU(),
    ]
    width = 64
    for outputs, stride in _STAGES:
        layers += [ResidualBlock(width, outputs, stride, norm), ResidualBlock(outputs, outputs, 1, norm)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def resnet18_bn(**sizes: int) -> nn.Module:
    """The same with batch normalisation."""
    return resnet18(norm=BATCH, **sizes)
