"""The linear model: a batch of features in, a batch of one number each out."""

from __future__ import annotations

from torch import nn


def linear(inputs: int = 10) -> nn.Module:
    """A weight for each input and a bias, 11 parameters for AFL's 10 inputs (Forootani and Iervolino 2025, section VI).

    One model for both of its tasks: the number is the value (regression), or its sign is the class (SVM).
    """
    return nn.Linear(inputs, 1)
