"""FLOPs of one sample, forward and in training. A multiplication and an addition are two; nothing else counts.

They are computed from the shapes of the layers if a network consists of torch's layers and those of this project.
torch's own counter works for every network, but it does not see an LSTM on a CPU, which is one fused operation there,
and its first use imports ``torch._dynamo``, which takes seconds and megabytes. So it is used only for users' networks,
whose code may do anything.

ASAFL (Chen et al. 2024, section VI) has 497,098 for its LeNet-5 and 305,662,730 for its VGG-11; here they are 514,048
and 305,796,096. Convolutions are counted in the same way; but in a fully connected layer, the paper counts a
multiplication and its addition as one, and also counts the biases.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import nn

from testbed.learning.models.transformer import CausalAttention

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_COUNTED = (*_CONVOLUTIONS, nn.Linear, nn.RNNBase, CausalAttention)
_FREE = (nn.Embedding, nn.GroupNorm, nn.LayerNorm, nn.modules.batchnorm._NormBase)
"""Layers with parameters but without matrix products."""


Loss = Callable[[torch.Tensor], torch.Tensor]
"""A loss of the outputs. Its own FLOPs do not count, but only outputs that it uses have a gradient."""


def per_sample(module: nn.Module, inputs: torch.Tensor, loss: Loss = torch.sum) -> tuple[int, int]:
    """Return the FLOPs of ``inputs``, a batch of one sample: forward, and in training (forward and backward).

    (0, 0) for a user's network in which torch's counter finds no operations. For a user's network, call it only in a
    process that ends soon, because of the imports.
    """
    if all(_is_known(part) for part in module.modules()):
        return _by_shapes(module, inputs)
    return by_torch(module, inputs, loss)


def _is_known(module: nn.Module) -> bool:
    home = type(module).__module__
    if not home.startswith(("torch.nn.modules.", "testbed.learning.models.")):
        return False
    return isinstance(module, _COUNTED + _FREE) or next(module.parameters(recurse=False), None) is None


class _Counter:
    """Adds up the FLOPs of layers as a forward pass calls them."""

    def __init__(self) -> None:
        self.forward = 0
        self.training = 0

    def count(self, layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if isinstance(layer, nn.RNNBase):
            self._recurrent(layer, inputs[0])
            return
        if isinstance(layer, CausalAttention):
            self._attention(inputs[0])
            return
        assert isinstance(layer, (*_CONVOLUTIONS, nn.Linear))
        # each weight is used once at each position of the output
        places = output.numel() // layer.weight.shape[0]
        self._add(layer.weight, places, places if inputs[0].requires_grad else 0)

    def _recurrent(self, layer: nn.RNNBase, sequence: torch.Tensor) -> None:
        """Each weight is used once for each element of the sequence; each direction has its own."""
        length = sequence.shape[1 if layer.batch_first and sequence.dim() == 3 else 0]
        places = sequence.numel() // layer.input_size
        for name, weight in layer.named_parameters(recurse=False):
            if name.startswith("weight_hh"):  # the gradient of the initial state is not needed
                self._add(weight, places, places - places // length)
            elif name.startswith("weight_ih_l0"):
                self._add(weight, places, places if sequence.requires_grad else 0)
            elif name.startswith("weight"):
                self._add(weight, places, places)

    def _attention(self, rows: torch.Tensor) -> None:
        """Scores, and sums by scores: two products of all pairs of positions, masked ones too. See CausalAttention."""
        once = 2 * 2 * rows[0].numel() * rows.shape[-2]
        self.forward += once
        self.training += 3 * once if rows.requires_grad else once

    def _add(self, weight: torch.Tensor, places: int, passed_on: int) -> None:
        """Add products with ``weight`` at ``places`` positions; ``passed_on`` of the inputs need a gradient."""
        once = 2 * weight.numel()
        self.forward += once * places
        self.training += once * (places + (places if weight.requires_grad else 0) + passed_on)


def _by_shapes(module: nn.Module, inputs: torch.Tensor) -> tuple[int, int]:
    counter = _Counter()
    hooks = [part.register_forward_hook(counter.count) for part in module.modules() if isinstance(part, _COUNTED)]
    try:
        with torch.enable_grad():
            module(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return counter.forward, counter.training


def by_torch(module: nn.Module, inputs: torch.Tensor, loss: Loss = torch.sum) -> tuple[int, int]:
    """Return the same as :func:`per_sample`, for any network, by torch's own counter."""
    from torch.utils.flop_counter import FlopCounterMode

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about missing hardware
        # without oneDNN, an LSTM is computed by matrix products, which are counted
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            result = loss(module(inputs))
            forward = int(counter.get_total_flops())
            if result.requires_grad:
                torch.autograd.grad(result, trained, allow_unused=True)
    return forward, int(counter.get_total_flops())
