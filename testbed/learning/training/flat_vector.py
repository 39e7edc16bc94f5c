"""A network over one flat vector.

Theory of operation
    A job must follow from its model, the memory of its device and its seed, or it could not be computed again. So
    everything in a network is in one of three places:

    vector      the parameters that are trained, those that need no gradient, then the floating-point buffers that a
                state dictionary has, too: running means and variances of batch normalisation
    kept        by each device, from job to job: the other buffers of the state dictionary, such as the counter
                num_batches_tracked; with ``local_buffers``, all of them
    set back    at the beginning of each job: buffers that are not saved (persistent=False), whether a layer is in
                training mode, whether a parameter needs a gradient

    Parameters, gradients and the buffers of the vector are views into flat tensors: to load a model, a step and the
    difference of two models are one operation each, for every network. Training may put other tensors in their place
    (``zero_grad`` removes gradients, a layer may write ``self.mean = …``); ``gather`` copies their values and makes
    them views again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from testbed.common.errors import UserError
from testbed.wire.messages import Vector


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A parameter or a buffer, and all places at which the network has it: weights may be tied."""

    name: str
    places: Sequence[tuple[nn.Module, str]]
    tensor: torch.Tensor
    """What is at these places while no training has put something else there."""

    @property
    def found(self) -> torch.Tensor | None:
        """What is there now."""
        present = [getattr(owner, leaf, None) for owner, leaf in self.places]
        return next((each for each in present if each is not self.tensor), self.tensor)

    def put(self, tensor: torch.Tensor) -> None:
        for owner, leaf in self.places:
            if getattr(owner, leaf, None) is not tensor:
                setattr(owner, leaf, tensor)


class FlatModel:
    """A network whose parameters, buffers and gradients are views into flat tensors."""

    def __init__(self, module: nn.Module, *, local_buffers: bool = False) -> None:
        """Raises UserError if the network cannot be trained here.

        A network in evaluation mode is set to training mode; single layers may be in evaluation mode.
        """
        self.module = module
        if not module.training:
            module.train()
        self._modes = [(part, part.training) for part in module.modules()]
        parameters = list(_parts(module.named_parameters(remove_duplicate=False), module))
        self._trained = [part for part in parameters if part.tensor.requires_grad]
        self._parameters = self._trained + [part for part in parameters if not part.tensor.requires_grad]
        saved = module.state_dict().keys()
        buffers = list(_parts(module.named_buffers(remove_duplicate=False), module))
        self._shared = [p for p in buffers if p.name in saved and p.tensor.is_floating_point() and not local_buffers]
        self._kept = [p for p in buffers if p.name in saved and p not in self._shared]
        self._set_back = [p for p in buffers if p.name not in saved]
        self._empty = [(m, leaf) for m in module.modules() for leaf, buffer in m._buffers.items() if buffer is None]

        in_vector = [*self._parameters, *self._shared]
        _check(in_vector)
        self.names: list[tuple[str, torch.Size]] = [(part.name, part.tensor.shape) for part in in_vector]
        self.vector = torch.cat([torch.empty(0), *(part.tensor.detach().flatten() for part in in_vector)])
        self._views = list(_views(self.vector, in_vector))
        self._shared = [
            _Part(part.name, part.places, view)
            for part, view in zip(self._shared, self._views[len(self._parameters) :], strict=True)
        ]
        size = sum(part.tensor.numel() for part in self._trained)
        self.weights = self.vector[:size]
        """The parameters that are trained."""
        self.gradient = torch.zeros(size)
        self._gradients = list(_views(self.gradient, self._trained))
        self._initial_kept = {part.name: part.tensor.clone() for part in self._kept}
        self._initial_set_back = [part.tensor.clone() for part in self._set_back]
        self._attach()

    def load(self, vector: Vector, kept: Mapping[str, torch.Tensor] | None = None) -> None:
        """Set everything that the network has. ``kept``: what :meth:`kept` returned; None: as it was at first.

        A strategy that goes beyond the mean of models may make a variance negative: it is set to 0.
        """
        self._attach()
        # torch.from_numpy would warn about a received vector, which is read-only
        np.copyto(self.vector.numpy(), vector)
        self.gradient.zero_()
        for part in self._shared:
            if part.name.rpartition(".")[2] == "running_var":
                part.tensor.clamp_(min=0.0)
        initial = self._initial_kept
        for part in self._kept:
            part.put((initial[part.name] if kept is None else kept[part.name]).clone())
        for part, first in zip(self._set_back, self._initial_set_back, strict=True):
            part.put(part.tensor)
            if not torch.equal(part.tensor, first):  # writing would take memory that processes share
                part.tensor.copy_(first)
        for owner, leaf in self._empty:
            setattr(owner, leaf, None)
        self.restore_modes()

    def restore_modes(self) -> None:
        """Set each layer to training or evaluation mode as it was at first."""
        for part, training in self._modes:
            part.training = training

    @property
    def layers_in_training(self) -> list[nn.Module]:
        """All parts of the network that are in training mode when it is trained."""
        return [part for part, training in self._modes if training]

    def gather(self) -> None:
        """Make parameters, buffers and gradients views again, with the values that they have now.

        Raises ValueError if one has another shape or type.
        """
        for part, view in zip((*self._parameters, *self._shared), self._views, strict=True):
            found = _fitting(part, view)
            if found.data_ptr() != view.data_ptr():
                view.copy_(found.detach())
        self._attach()

    def kept(self) -> dict[str, torch.Tensor]:
        """Return copies of the buffers that are not part of the vector, by name."""
        found = {part.name: part.found for part in self._kept}
        return {name: tensor.clone() for name, tensor in found.items() if tensor is not None}

    def _attach(self) -> None:
        """Make parameters, buffers and gradients views, whatever training has put in their place."""
        for part, view in zip(self._parameters, self._views, strict=False):
            part.put(part.tensor)
            if part.tensor.data_ptr() != view.data_ptr():
                part.tensor.data = view
        for part in self._shared:
            part.put(part.tensor)
        for part, gradient in zip(self._trained, self._gradients, strict=True):
            part.tensor.requires_grad_(True)
            part.tensor.grad = gradient
        for part in self._parameters[len(self._trained) :]:
            part.tensor.requires_grad_(False)
            part.tensor.grad = None


def _parts(named: Iterable[tuple[str, torch.Tensor]], module: nn.Module) -> Iterator[_Part]:
    """Yield each tensor once, with all its places; its name is the first one."""
    places: dict[int, list[tuple[nn.Module, str]]] = {}
    first: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in named:
        path, _, leaf = name.rpartition(".")
        places.setdefault(id(tensor), []).append((module.get_submodule(path), leaf))
        first.setdefault(id(tensor), (name, tensor))
    for key, (name, tensor) in first.items():
        yield _Part(name, places[key], tensor)


def _check(parts: Sequence[_Part]) -> None:
    for part in parts:
        if nn.parameter.is_lazy(part.tensor):
            raise UserError(f"{part.name} of the network has no size yet; call the network with one sample first")
        if part.tensor.dtype != torch.float32:
            given = str(part.tensor.dtype).removeprefix("torch.")
            raise UserError(f"{part.name} of the network is {given}; float32 is wanted: return network.float()")
        if part.tensor.device.type != "cpu":
            raise UserError(f"{part.name} of the network is on {part.tensor.device}; return network.cpu()")


def _fitting(part: _Part, view: torch.Tensor) -> torch.Tensor:
    found = part.found
    if found is None or found.shape != view.shape or found.dtype != view.dtype:
        given = "missing" if found is None else f"{found.dtype} of shape {tuple(found.shape)}"
        raise ValueError(f"{part.name} is {given} after training; it must be {view.dtype} of shape {tuple(view.shape)}")
    return found


def _views(flat: torch.Tensor, like: Sequence[_Part]) -> Iterator[torch.Tensor]:
    """Yield views into a flat tensor with the shapes of these parts, one after the other."""
    start = 0
    for part in like:
        yield flat[start : start + part.tensor.numel()].view(part.tensor.shape)
        start += part.tensor.numel()
