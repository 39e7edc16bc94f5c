"""Networks for vectors: a batch of features in, a batch of scores of the classes out."""

from __future__ import annotations

from torch import nn


def mlp() -> nn.Module:
    """6,314 parameters, for Synthetic(α, β), 60 features and 10 classes: AsyncFedED (Wang et al. 2022, appendix B.1).

    The paper says: three fully connected layers. The widths between, 64 and 32, are our choice.
    """
    return nn.Sequential(nn.Linear(60, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
