"""Networks by name: their sizes, inputs and outputs, and seeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from testbed.learning.models import NETWORKS
from testbed.learning.models.building import BUILDERS, build

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def made(name: str, seed: int = 1) -> nn.Module:
    return build(name, seed, **NETWORKS[name].sizes)


def some(name: str, count: int) -> torch.Tensor:
    """Return random inputs for a network."""
    shape = (count, *NETWORKS[name].inputs)
    generator = torch.Generator().manual_seed(7)
    if name == "char-lstm":
        return torch.randint(NETWORKS[name].outputs, shape, generator=generator)
    return torch.randn(shape, generator=generator)


def flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


# ---- sizes


def conv(channels: int, filters: int, kernel: int) -> int:
    return channels * kernel * kernel * filters + filters


def full(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def lstm(inputs: int, hidden: int) -> int:
    """Four gates, each with weights of the input and of the state, and two vectors of biases."""
    return 4 * (inputs * hidden + hidden * hidden + 2 * hidden)


VGG11 = [(3, 64), (64, 128), (128, 256), (256, 256), (256, 512), (512, 512), (512, 512), (512, 512)]
PARAMETERS = {
    "small-cnn": (6_090, [conv(1, 16, 3), conv(16, 32, 3), full(32 * 2 * 2, 10)]),
    "small-mlp": (2_410, [full(64, 32), full(32, 10)]),
    "cnn": (21_840, [conv(1, 10, 5), conv(10, 20, 5), full(20 * 4 * 4, 50), full(50, 10)]),
    "over-cnn": (663_226, [conv(1, 32, 3), conv(32, 64, 3), full(64 * 5 * 5, 400), full(400, 10)]),
    "lenet5": (19_670, [conv(1, 6, 5), conv(6, 16, 5), full(16 * 4 * 4, 64), full(64, 10)]),
    "vgg11": (9_354_378, [*(conv(*widths, 3) for widths in VGG11), full(512, 256), full(256, 10)]),
    "eafl-cnn": (28_938, [conv(1, 16, 5), conv(16, 32, 5), full(32 * 7 * 7, 10)]),
    "lenet": (62_006, [conv(3, 6, 5), conv(6, 16, 5), full(16 * 5 * 5, 120), full(120, 84), full(84, 10)]),
    "femnist-cnn": (590_270, [conv(1, 32, 3), conv(32, 64, 3), full(64 * 12 * 12, 62)]),
    "mlp": (6_314, [full(60, 64), full(64, 32), full(32, 10)]),
    "char-lstm": (819_920, [8 * 80, lstm(8, 256), lstm(256, 256), full(256, 80)]),
    "linear": (11, [full(10, 1)]),
}


def test_exactly_the_networks_of_the_catalogue_can_be_built() -> None:
    assert list(NETWORKS) == list(BUILDERS) == list(PARAMETERS)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_as_many_parameters_as_its_layers(name: str) -> None:
    stated, layers = PARAMETERS[name]
    assert sum(layers) == stated == NETWORKS[name].parameters == flat(made(name)).numel()


@pytest.mark.parametrize(("classes", "parameters"), [(65, 815_945), (80, 819_920)])
def test_a_network_for_text_grows_with_the_alphabet(classes: int, parameters: int) -> None:
    layers = [8 * classes, lstm(8, 256), lstm(256, 256), full(256, classes)]
    network = build("char-lstm", 1, classes=classes)
    assert sum(layers) == parameters == 798_720 + 265 * classes == flat(network).numel()
    assert network(torch.zeros((2, 30), dtype=torch.int64)).shape == (2, classes)


def test_a_network_for_text_needs_the_size_of_the_alphabet() -> None:
    with pytest.raises(TypeError, match="classes"):
        build("char-lstm", 1)


def test_the_over_parameterised_network_has_about_as_many_parameters_as_in_the_paper() -> None:
    assert NETWORKS["over-cnn"].parameters - 663_160 == 66
    # only unusual widths have exactly as many
    assert conv(1, 26, 3) + conv(26, 98, 3) + full(98 * 5 * 5, 260) + full(260, 10) == 663_160


@pytest.mark.parametrize("inputs", [1, 10, 123])
def test_a_linear_model_has_a_weight_for_each_input_and_a_bias(inputs: int) -> None:
    assert flat(build("linear", 1, inputs=inputs)).numel() == inputs + 1


# ---- inputs and outputs


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_network_has_its_outputs_for_each_sample(name: str, count: int) -> None:
    assert made(name)(some(name, count)).shape == (count, NETWORKS[name].outputs)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_no_state_except_its_parameters(name: str) -> None:
    network = made(name)
    assert next(network.buffers(), None) is None
    inputs = some(name, 2)
    with torch.no_grad():
        trained, evaluated = network.train()(inputs), network.eval()(inputs)
    assert torch.equal(trained, evaluated)  # no dropout


@pytest.mark.parametrize("name", NETWORKS)
def test_untrained_outputs_differ_between_samples(name: str) -> None:
    """With torch's default weights, VGG-11 has nearly the same output for all images."""
    with torch.no_grad():
        spread = float(made(name)(some(name, 4)).std(dim=0).mean())
    assert spread > 3e-4  # that of an untrained LSTM is small


def test_vgg11_learns_with_its_initial_weights_and_not_with_torchs_default() -> None:
    inputs, labels = some("vgg11", 4), torch.tensor([1, 2, 3, 4])
    torch.manual_seed(3)
    plain = made("vgg11")
    for layer in plain.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.reset_parameters()
    learnt = [_learnt(network, inputs, labels) for network in (made("vgg11"), plain)]
    assert learnt[0] > 0.5
    assert abs(learnt[1]) < 0.1


def _learnt(network: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    """Return by how much the loss of some samples falls in a few steps."""
    losses = []
    for _ in range(8):
        network.zero_grad()
        loss = nn.functional.cross_entropy(network(inputs), labels)
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for parameter in network.parameters():
                assert parameter.grad is not None
                parameter -= 0.01 * parameter.grad
    return losses[0] - losses[-1]


def test_an_lstm_over_views_into_a_flat_vector_uses_the_values_of_the_vector() -> None:
    """An LSTM keeps its own list of weights, but devices load models into the vector."""
    network, other = build("char-lstm", 1, classes=65), build("char-lstm", 2, classes=65)
    vector, start = flat(network), 0
    for parameter in network.parameters():
        parameter.data = vector[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    vector.copy_(flat(other))
    characters = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        assert torch.equal(network(characters), other(characters))


# ---- seeds


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_depend_only_on_the_seed(name: str) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = flat(made(name, 1))
    assert torch.equal(torch.rand(1), expected)  # the global generator is unchanged
    assert torch.equal(first, flat(made(name, 1)))
    assert not torch.equal(first, flat(made(name, 2)))


def test_without_a_seed_weights_are_drawn_from_the_global_generator() -> None:
    torch.manual_seed(5)
    assert torch.equal(flat(build("cnn")), flat(build("cnn", 5)))


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("small-cnn", [0.02328169, -0.20079789, 0.10614114], 0.03383439), ("cnn", [0.01396902, -0.12047873], 0.07359365)],
)
def test_the_weights_of_a_seed_have_not_changed(name: str, first: list[float], last: float) -> None:
    weights = flat(made(name, 7))
    assert weights[: len(first)].tolist() == pytest.approx(first, abs=1e-7)
    assert float(weights[-1]) == pytest.approx(last, abs=1e-7)


def test_the_catalogue_does_not_import_torch() -> None:
    code = "import sys, testbed.learning.models; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)
