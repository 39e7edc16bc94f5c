"""The linear model: the input is a batch of features, the output a weighted sum of them for each sample."""

from __future__ import annotations

from torch import nn


def linear(inputs: int = 10, outputs: int = 1) -> nn.Module:
    """A weight for each input and a bias: 11 parameters for AFL's 10 inputs (Forootani and Iervolino 2025, section VI).

    The paper uses it for two tasks: the output is the value (regression), or its sign is the class (SVM). With an
    output for each class, it is logistic regression.
    """
    return nn.Linear(inputs, outputs)
