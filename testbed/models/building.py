"""From the name of a network to the network, its weights drawn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from testbed.models import images, linear, perceptron, text

BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "small-cnn": images.small_cnn,
    "small-mlp": images.small_mlp,
    "cnn": images.cnn,
    "over-cnn": images.over_cnn,
    "lenet5": images.lenet5,
    "vgg11": images.vgg11,
    "eafl-cnn": images.eafl_cnn,
    "lenet": images.lenet,
    "femnist-cnn": images.femnist_cnn,
    "mlp": perceptron.mlp,
    "char-lstm": text.CharLSTM,
    "linear": linear.linear,
}


def build(name: str, seed: int | None = None, **sizes: int) -> nn.Module:
    """The network ``name``, its weights drawn from ``seed`` alone; None: from torch's generator as it stands.

    ``sizes`` are those of its entry in the catalogue: a network for text must be told how many characters there are.
    """
    if seed is None:
        return BUILDERS[name](**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BUILDERS[name](**sizes)
