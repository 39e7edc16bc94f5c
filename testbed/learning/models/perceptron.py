"""Networks for vectors: the input is a batch of features, the output a batch of class scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

HIDDEN = (64, 32)


def mlp(inputs: int = 60, outputs: int = 10, hidden: Sequence[int] = HIDDEN) -> nn.Module:
    """6,314 parameters, for Synthetic(α, β), 60 features and 10 classes: AsyncFedED (Wang et al. 2022, appendix B.1).

    The paper says: three fully connected layers. The inner widths, 64 and 32, are our choice.
    """
    layers: list[nn.Module] = []
    for width, following in pairwise((inputs, *hidden, outputs)):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
