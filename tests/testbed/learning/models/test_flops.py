"""FLOPs by the shapes of layers, compared with values computed by hand, by torch and in papers."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from testbed.learning.models import NETWORKS, flops
from testbed.learning.models.building import build
from tests.testbed.learning.models.test_networks import ROOT, VGG11, made, some


def conv(channels: int, kernel: int, filters: int, side: int) -> int:
    return 2 * channels * kernel * kernel * filters * side * side


def full(inputs: int, outputs: int) -> int:
    return 2 * inputs * outputs


def resnet_stage(inputs: int, outputs: int, side: int) -> int:
    shortcut = conv(inputs, 1, outputs, side) if inputs != outputs else 0
    return conv(inputs, 3, outputs, side) + 3 * conv(outputs, 3, outputs, side) + shortcut


def inverted(inputs: int, outputs: int, before: int, after: int, expansion: int = 4) -> int:
    """``before``, ``after``: side of the images. A filter of each channel alone has one channel as input."""
    width = inputs * expansion
    expanding = conv(inputs, 1, width, before) if expansion > 1 else 0
    return expanding + conv(1, 3, width, after) + conv(width, 1, outputs, after)


RESNET18 = [
    conv(3, 3, 64, 32),
    resnet_stage(64, 64, 32),
    resnet_stage(64, 128, 16),
    resnet_stage(128, 256, 8),
    resnet_stage(256, 512, 4),
    full(512, 10),
]
MOBILENET = [
    conv(3, 3, 16, 32),
    inverted(16, 16, 32, 32, expansion=1),
    inverted(16, 24, 32, 16),
    inverted(24, 24, 16, 16),
    inverted(24, 32, 16, 8),
    inverted(32, 32, 8, 8),
    inverted(32, 64, 8, 4),
    inverted(64, 64, 4, 4),
    conv(64, 1, 256, 4),
    full(256, 10),
]
FORWARD = {
    "small-cnn": [conv(1, 3, 16, 8), conv(16, 3, 32, 4), full(128, 10)],
    "small-mlp": [full(64, 32), full(32, 10)],
    "cnn": [conv(1, 5, 10, 24), conv(10, 5, 20, 8), full(320, 50), full(50, 10)],
    "over-cnn": [conv(1, 3, 32, 26), conv(32, 3, 64, 11), full(1600, 400), full(400, 10)],
    "lenet5": [conv(1, 5, 6, 24), conv(6, 5, 16, 8), full(256, 64), full(64, 10)],
    "vgg11": [
        *(conv(a, 3, b, side) for (a, b), side in zip(VGG11, (32, 16, 8, 8, 4, 4, 2, 2), strict=True)),
        full(512, 256),
        full(256, 10),
    ],
    "eafl-cnn": [conv(1, 5, 16, 28), conv(16, 5, 32, 14), full(1568, 10)],
    "lenet": [conv(3, 5, 6, 28), conv(6, 5, 16, 10), full(400, 120), full(120, 84), full(84, 10)],
    "femnist-cnn": [conv(1, 3, 32, 26), conv(32, 3, 64, 24), full(9216, 62)],
    "mlp": [full(60, 64), full(64, 32), full(32, 10)],
    "linear": [full(10, 1)],
    "small-cnn-bn": [conv(1, 3, 16, 8), conv(16, 3, 32, 4), full(128, 10)],
    "resnet18": RESNET18,
    "resnet18-bn": RESNET18,
    "mobilenet": MOBILENET,
    "mobilenet-bn": MOBILENET,
}


@pytest.mark.parametrize("name", FORWARD)
def test_flops_equal_those_computed_by_hand(name: str) -> None:
    layers = FORWARD[name]
    # the backward pass costs twice the forward pass, but the gradient of the inputs is not needed
    assert flops.per_sample(made(name), some(name, 1)) == (sum(layers), 3 * sum(layers) - layers[0])


@pytest.mark.parametrize(("length", "classes"), [(80, 80), (80, 65), (5, 65), (1, 65)])
def test_the_flops_of_an_lstm_equal_those_computed_by_hand(length: int, classes: int) -> None:
    network, text = build("char-lstm", 1, classes=classes), torch.zeros((1, length), dtype=torch.int64)
    gates = [full(inputs, 4 * 256) for inputs in (8, 256, 256, 256)]  # of input and state, twice
    forward = length * sum(gates) + full(256, classes)
    # every character's embedding has a gradient; the two states before the first have none
    assert flops.per_sample(network, text) == (forward, 3 * forward - 2 * full(256, 4 * 256))


@pytest.mark.parametrize(("length", "classes"), [(80, 80), (80, 65), (5, 65)])
def test_the_flops_of_the_transformer_equal_those_computed_by_hand(length: int, classes: int) -> None:
    network, text = build("tiny-transformer", 1, classes=classes), torch.zeros((1, length), dtype=torch.int64)
    perceptron = full(64, 256) + full(256, 64)
    # 4 heads of width 16: each position has a product with each, once for its scores and once for its sum
    attention = 2 * 4 * length * full(16, length)
    layer = length * (full(64, 3 * 64) + full(64, 64) + perceptron) + attention
    forward = 2 * layer + full(64, classes)
    assert flops.per_sample(network, text) == (forward, 3 * forward)


@pytest.mark.parametrize("name", [name for name in NETWORKS if not name.startswith("mobilenet")])
def test_flops_equal_those_that_torch_counts(name: str) -> None:
    network, inputs = made(name), some(name, 1)
    assert flops.per_sample(network, inputs) == flops.by_torch(network, inputs)


KINDS = {
    "GRU": (nn.GRU(8, 16, batch_first=True), (1, 5, 8)),
    "RNN, the other axis first": (nn.RNN(8, 16, 2), (5, 1, 8)),
    "both directions": (nn.LSTM(8, 16, 2, bidirectional=True), (5, 1, 8)),
    "a sequence without a batch": (nn.LSTM(8, 16, batch_first=True), (5, 8)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_flops_of_other_recurrent_layers_equal_those_that_torch_counts(kind: str) -> None:
    layer, shape = KINDS[kind]
    sequence = torch.randn(shape)
    counted = flops.by_torch(layer, sequence, lambda outputs: outputs[0].sum())
    assert flops.per_sample(layer, sequence) == counted
    assert counted[0] > 0


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (nn.Sequential(nn.Conv2d(4, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 1)), (1, 4, 9, 9)),
        (nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 1)), (1, 4, 9, 9)),
        (nn.Sequential(nn.Conv1d(2, 3, 3), nn.LayerNorm(6), nn.Linear(6, 4)), (1, 2, 8)),
        (nn.Sequential(nn.Conv3d(1, 2, 2, dilation=2), nn.Flatten()), (1, 1, 4, 4, 4)),
    ],
    ids=["strides", "batch normalisation", "a linear layer over many rows", "three dimensions"],
)
def test_the_flops_of_other_layers_equal_those_that_torch_counts(network: nn.Module, shape: tuple[int, ...]) -> None:
    inputs = torch.randn(shape)
    assert flops.per_sample(network, inputs) == flops.by_torch(network, inputs)


def test_the_flops_of_a_convolution_are_divided_by_its_groups() -> None:
    """torch's counter ignores the groups in the gradient of the weights."""
    network, inputs = nn.Sequential(nn.Conv2d(4, 8, 3, groups=2)), torch.randn(1, 4, 6, 6)
    assert flops.per_sample(network, inputs) == (conv(4, 3, 8, 4) // 2, conv(4, 3, 8, 4))


def test_frozen_layers_need_no_gradient_of_their_weights() -> None:
    network = made("cnn")
    for parameter in list(network.parameters())[:2]:  # the first convolution
        parameter.requires_grad_(False)
    forward, training = flops.per_sample(network, some("cnn", 1))
    assert (forward, training) == flops.by_torch(network, some("cnn", 1))
    assert training == 3 * forward - 2 * FORWARD["cnn"][0] - FORWARD["cnn"][1]


class Attention(nn.Module):
    """A user's network: known layers, and further multiplications."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 8)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        asked: torch.Tensor = self.query(rows)
        return asked @ asked.transpose(1, 2) @ rows


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = build("char-lstm", 1, classes=65)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.inner(text)
        return scores


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return (self.factor * rows).sum(dim=1)


def test_torch_counts_the_flops_of_users_networks() -> None:
    forward, training = flops.per_sample(Attention(), torch.randn(1, 5, 8))
    assert forward == 5 * full(8, 8) + 2 * (2 * 5 * 5 * 8)
    assert training > 2 * forward
    assert flops.per_sample(Sum(), torch.randn(1, 5)) == (0, 0)


def test_an_lstm_in_a_users_network_is_counted() -> None:
    network, text = Embedded(), torch.zeros((1, 7), dtype=torch.int64)
    assert flops.per_sample(network, text) == flops.per_sample(network.inner, text)


def test_counting_does_not_change_the_network() -> None:
    for network, inputs in ((made("cnn"), some("cnn", 1)), (Attention(), torch.randn(1, 5, 8))):
        flops.per_sample(network, inputs)
        assert all(parameter.grad is None for parameter in network.parameters())
        assert not any(part._forward_hooks for part in network.modules())


def test_counting_a_network_of_the_catalogue_does_not_import_dynamo() -> None:
    code = """
import sys, torch
from testbed.learning.models import building, flops
flops.per_sample(building.build("char-lstm", 1, classes=65), torch.zeros((1, 80), dtype=torch.int64))
sys.exit("torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)


@pytest.mark.parametrize(
    ("name", "papers", "ours"), [("lenet5", 497_098, 514_048), ("vgg11", 305_662_730, 305_796_096)]
)
def test_asafl_counts_fully_connected_layers_differently(name: str, papers: int, ours: int) -> None:
    network = made(name)
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    assert flops.per_sample(network, some(name, 1))[0] == ours
    # there, a multiplication with its addition is one, and a bias is one
    assert ours - sum(layer.weight.numel() - layer.bias.numel() for layer in layers) == papers
