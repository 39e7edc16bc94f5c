"""FLOPs of one sample, forward and in training: a multiplication and an addition are two, everything else is nothing.

They follow from the shapes of the layers, where all the code of a network is torch's or ours. torch's own counter sees
every network, but it does not see an LSTM on a CPU, which is one fused operation there, and its first use imports
``torch._dynamo``: seconds and megabytes. So it is left for the networks of others, whose code may do anything.

ASAFL (Chen et al. 2024, section VI) has 497,098 for its LeNet-5 and 305,662,730 for its VGG-11, and we have 514,048 and
305,796,096. It counts convolutions as we do; but in a fully connected layer a multiplication and its addition as one,
and the biases, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import nn

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_COUNTED = (*_CONVOLUTIONS, nn.Linear, nn.RNNBase)
_FREE = (nn.Embedding, nn.GroupNorm, nn.LayerNorm)
"""They have parameters, and multiply no matrices."""


Loss = Callable[[torch.Tensor], torch.Tensor]
"""Of what a network gives. It counts for nothing; but only what it looks at has a gradient."""


def per_sample(module: nn.Module, inputs: torch.Tensor, loss: Loss = torch.sum) -> tuple[int, int]:
    """FLOPs of ``inputs``, a batch of one sample: forward, and in training (forward and backward).

    (0, 0) for a network of others in which torch's counter sees nothing. Only for a process that ends soon, if the
    network may be one of others.
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
    """Sees every layer as it is passed."""

    def __init__(self) -> None:
        self.forward = 0
        self.training = 0

    def see(self, layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if isinstance(layer, nn.RNNBase):
            self._recurrent(layer, inputs[0])
            return
        assert isinstance(layer, (*_CONVOLUTIONS, nn.Linear))
        # each weight is used once at each place of the output
        places = output.numel() // layer.weight.shape[0]
        self._add(layer.weight, places, places if inputs[0].requires_grad else 0)

    def _recurrent(self, layer: nn.RNNBase, sequence: torch.Tensor) -> None:
        """Each weight is used once for each element of the sequence (and once in each direction: it has its own)."""
        length = sequence.shape[1 if layer.batch_first and sequence.dim() == 3 else 0]
        places = sequence.numel() // layer.input_size
        for name, weight in layer.named_parameters(recurse=False):
            if name.startswith("weight_hh"):  # nobody asks for the gradient of the state before the first
                self._add(weight, places, places - places // length)
            elif name.startswith("weight_ih_l0"):
                self._add(weight, places, places if sequence.requires_grad else 0)
            elif name.startswith("weight"):
                self._add(weight, places, places)

    def _add(self, weight: torch.Tensor, places: int, passed_on: int) -> None:
        """A product with ``weight`` at so many places, at some of which the gradient is passed on to the input."""
        once = 2 * weight.numel()
        self.forward += once * places
        self.training += once * (places + (places if weight.requires_grad else 0) + passed_on)


def _by_shapes(module: nn.Module, inputs: torch.Tensor) -> tuple[int, int]:
    counter = _Counter()
    hooks = [part.register_forward_hook(counter.see) for part in module.modules() if isinstance(part, _COUNTED)]
    try:
        with torch.enable_grad():
            module(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return counter.forward, counter.training


def by_torch(module: nn.Module, inputs: torch.Tensor, loss: Loss = torch.sum) -> tuple[int, int]:
    """The same as torch counts it, for any network."""
    from torch.utils.flop_counter import FlopCounterMode

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the switch warns of hardware that is not there
        # without oneDNN, an LSTM is made of products of matrices, which are seen
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            result = loss(module(inputs))
            forward = int(counter.get_total_flops())
            if result.requires_grad:
                torch.autograd.grad(result, trained, allow_unused=True)
    return forward, int(counter.get_total_flops())
