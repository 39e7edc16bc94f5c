"""A network over one flat vector."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from testbed.wire.messages import Vector


class FlatModel:
    """A network whose parameters and gradients are views into two flat tensors.

    So loading a model, a step and a difference of models are one vector operation each for every network.
    """

    def __init__(self, module: nn.Module) -> None:
        if next(module.buffers(), None) is not None:
            raise ValueError(
                "networks with buffers (batch norm) are not supported: use group norm, or merge them into the weights"
            )
        self.module = module
        self.names: list[tuple[str, torch.Size]] = [(name, p.shape) for name, p in module.named_parameters()]
        size = sum(p.numel() for p in module.parameters())
        self.vector = torch.empty(size)
        self.gradient = torch.zeros(size)
        start = 0
        for parameter in module.parameters():
            end = start + parameter.numel()
            view = self.vector[start:end].view_as(parameter)
            view.copy_(parameter.data)
            parameter.data = view
            parameter.grad = self.gradient[start:end].view_as(parameter)
            start = end

    def load(self, vector: Vector) -> None:
        """Set all parameters."""
        # torch.from_numpy would warn about a received vector, which is read-only
        np.copyto(self.vector.numpy(), vector)
