"""Builds networks by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from testbed.learning.models import (
    fitting,
    image_networks,
    linear_networks,
    mobilenet,
    perceptron,
    resnet,
    text_networks,
    transformer,
)

BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "small-cnn": image_networks.small_cnn,
    "small-mlp": image_networks.small_mlp,
    "cnn": image_networks.cnn,
    "over-cnn": image_networks.over_cnn,
    "lenet5": image_networks.lenet5,
    "vgg11": image_networks.vgg11,
    "eafl-cnn": image_networks.eafl_cnn,
    "lenet": image_networks.lenet,
    "femnist-cnn": image_networks.femnist_cnn,
    "mlp": perceptron.mlp,
    "char-lstm": text_networks.CharLSTM,
    "linear": linear_networks.linear,
    "small-cnn-bn": image_networks.small_cnn_bn,
    "resnet18": resnet.resnet18,
    "resnet18-bn": resnet.resnet18_bn,
    "mobilenet": mobilenet.mobilenet,
    "mobilenet-bn": mobilenet.mobilenet_bn,
    "tiny-transformer": transformer.TinyTransformer,
}


def build(name: str, seed: int | None = None, **sizes: int | Sequence[int]) -> nn.Module:
    """Return the network ``name`` with weights drawn from ``seed``; None: from torch's global generator.

    ``sizes`` are those of its entry in the catalogue: a network for text needs the size of the alphabet.
    """
    if seed is None:
        return BUILDERS[name](**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BUILDERS[name](**sizes)


def build_for(name: str, shape: tuple[int, ...], outputs: int, hidden: Sequence[int]) -> nn.Module:
    """Return the network ``name`` for samples of a shape that it fits. ``hidden``: inner widths of a perceptron."""
    sizes: dict[str, Any] = {**fitting.sizes(name, shape, outputs)}
    widths: dict[str, Any] = {"hidden": hidden} if name == "mlp" else {}
    network = build(name, **sizes, **widths)
    return nn.Sequential(nn.Flatten(), network) if fitting.takes_vectors(name) and len(shape) > 1 else network
