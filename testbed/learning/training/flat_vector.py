"""A network over one flat vector.

The vector has all parameters, then the floating-point buffers that a state dictionary has too: running means and
variances of batch normalisation. Counters (``num_batches_tracked``) stay where they are. With ``local`` buffers, the
vector has parameters only, and each device keeps its own buffers from job to job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn

from testbed.wire.messages import Vector


class FlatModel:
    """A network whose parameters, buffers and gradients are views into flat tensors.

    So loading a model, a step and a difference of models are one vector operation each for every network.
    """

    def __init__(self, module: nn.Module, *, local_buffers: bool = False) -> None:
        self.module = module
        named, buffers = list(module.named_parameters()), list(_float_buffers(module))
        shared = [] if local_buffers else [(name, tensor) for name, _, tensor in buffers]
        for name, tensor in (*named, *shared):
            if tensor.dtype != torch.float32:
                raise ValueError(f"{name} of the network is {tensor.dtype}; float32 is wanted: use module.float()")
        self.names: list[tuple[str, torch.Size]] = [(name, tensor.shape) for name, tensor in (*named, *shared)]
        self._parameters = [parameter for _, parameter in named]
        size = sum(parameter.numel() for parameter in self._parameters)
        self.vector = torch.empty(size + sum(tensor.numel() for _, tensor in shared))
        self.weights = self.vector[:size]
        """The parameters: the part of the vector that a gradient changes."""
        self.gradient = torch.zeros(size)
        own = torch.empty(sum(tensor.numel() for _, _, tensor in buffers) if local_buffers else 0)
        self.local_buffers = own
        """The buffers that are not part of the vector."""
        self._views = list(_views(self.weights, self._parameters))
        self._gradients = list(_views(self.gradient, self._parameters))
        self._buffers = [(owner, name.rpartition(".")[2]) for name, owner, _ in buffers]
        self._buffer_views = list(_views(own if local_buffers else self.vector[size:], [each for *_, each in buffers]))
        self.gather()
        self._initial_buffers = own.clone()

    def load(self, vector: Vector) -> None:
        """Set all parameters, and the buffers that are part of the vector."""
        # torch.from_numpy would warn about a received vector, which is read-only
        np.copyto(self.vector.numpy(), vector)
        for (_, name), view in zip(self._buffers, self._buffer_views, strict=True):
            if name == "running_var":  # a strategy that goes beyond the mean of models may make it negative
                view.clamp_(min=0.0)

    def load_buffers(self, buffers: torch.Tensor | None) -> None:
        """Set the local buffers; None: as they were at first."""
        self.local_buffers.copy_(self._initial_buffers if buffers is None else buffers)

    def gather(self) -> None:
        """Make parameters, buffers and gradients views again, with the values that they have now.

        Training may have put other tensors in their place: ``zero_grad`` removes gradients, for instance. Raises
        ValueError if one has another shape or type.
        """
        for (name, _), parameter, view in zip(self.names, self._parameters, self._views, strict=False):
            if parameter.data_ptr() != view.data_ptr():
                view.copy_(_fitting(name, parameter.data, view))
                parameter.data = view
        for (owner, name), view in zip(self._buffers, self._buffer_views, strict=True):
            found = owner._buffers[name]
            if found is not view:
                view.copy_(_fitting(name, found, view))
                owner._buffers[name] = view
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient


def _fitting(name: str, found: torch.Tensor | None, view: torch.Tensor) -> torch.Tensor:
    if found is None or found.shape != view.shape or found.dtype != view.dtype:
        given = "missing" if found is None else f"{found.dtype} of shape {tuple(found.shape)}"
        raise ValueError(f"{name} is {given} after training; it must be {view.dtype} of shape {tuple(view.shape)}")
    return found


def _float_buffers(module: nn.Module) -> Iterator[tuple[str, nn.Module, torch.Tensor]]:
    """Yield name, owner and tensor of each buffer that has floating-point numbers and is saved with the network."""
    saved = module.state_dict().keys()
    for name, tensor in module.named_buffers():
        if tensor.is_floating_point() and name in saved:
            yield name, module.get_submodule(name.rpartition(".")[0]), tensor


def _views(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield views into a flat tensor with the shapes of these tensors, one after the other."""
    start = 0
    for tensor in like:
        yield flat[start : start + tensor.numel()].view(tensor.shape)
        start += tensor.numel()
