"""A network over one flat vector."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from testbed.wire.messages import Vector


class FlatModel:
    """A network whose parameters and gradients are views into two flat tensors.

    Loading a model, stepping and taking a delta are then one vector operation each, whatever the network.
    """

    def __init__(self, module: nn.Module) -> None:
        if next(module.buffers(), None) is not None:
            raise ValueError("networks with buffers (batch norm) are not supported: use group norm, or fold them")
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
        # received vectors are read-only buffers, which from_numpy warns about; as a source of copy_ that is fine
        np.copyto(self.vector.numpy(), vector)
