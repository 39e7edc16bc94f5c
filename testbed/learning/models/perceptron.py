"""Networks for vectors: the input is a batch of features, the output a batch of class scores."""

from __future__ import annotations

from torch import nn


def mlp() -> nn.Module:
    """6,314 parameters, for Synthetic(α, β), 60 features and 10 classes: AsyncFedED (Wang et al. 2022, appendix B.1).

    The paper says: three fully connected layers. The inner widths, 64 and 32, are our choice.
    """
    return nn.Sequential(nn.Linear(60, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
