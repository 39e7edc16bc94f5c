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
from testbed.learning.models.transformer import CausalAttention, TinyTransformer

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
    if name in ("char-lstm", "tiny-transformer"):
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


def unbiased(channels: int, filters: int, kernel: int) -> int:
    """A convolution without biases, and its normalisation: a weight and a bias for each filter."""
    return channels * kernel * kernel * filters + 2 * filters


def resnet_stage(inputs: int, outputs: int) -> int:
    """Four convolutions in two blocks, and a shortcut of 1×1 if the number of channels changes."""
    shortcut = unbiased(inputs, outputs, 1) if inputs != outputs else 0
    return unbiased(inputs, outputs, 3) + 3 * unbiased(outputs, outputs, 3) + shortcut


def inverted(inputs: int, outputs: int, expansion: int = 4) -> int:
    """Expansion (unless by 1), a filter of 3×3 for each channel, contraction."""
    width = inputs * expansion
    expanding = unbiased(inputs, width, 1) if expansion > 1 else 0
    return expanding + unbiased(1, width, 3) + unbiased(width, outputs, 1)


def transformer_layer(width: int) -> int:
    """Two normalisations, heads and their joining, and a perceptron four times as wide."""
    perceptron = full(width, 4 * width) + full(4 * width, width)
    return 2 * 2 * width + full(width, 3 * width) + full(width, width) + perceptron


RESNET18 = [
    unbiased(3, 64, 3),
    resnet_stage(64, 64),
    resnet_stage(64, 128),
    resnet_stage(128, 256),
    resnet_stage(256, 512),
    full(512, 10),
]
MOBILENET = [
    unbiased(3, 16, 3),
    inverted(16, 16, expansion=1),
    *(inverted(*widths) for widths in [(16, 24), (24, 24), (24, 32), (32, 32), (32, 64), (64, 64)]),
    unbiased(64, 256, 1),
    full(256, 10),
]
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
    "small-cnn-bn": (6_186, [conv(1, 16, 3), 2 * 16, conv(16, 32, 3), 2 * 32, full(32 * 2 * 2, 10)]),
    "resnet18": (11_173_962, RESNET18),
    "resnet18-bn": (11_173_962, RESNET18),
    "mobilenet": (96_650, MOBILENET),
    "mobilenet-bn": (96_650, MOBILENET),
    # the scores use the embeddings of the characters again
    "tiny-transformer": (110_336, [64 * 80, 64 * 80, *[transformer_layer(64)] * 2, 2 * 64]),
}
NORMALISED = {
    "small-cnn-bn": [16, 32],
    "resnet18-bn": [64, *[64] * 4, *[128] * 5, *[256] * 5, *[512] * 5],
    # of a block: expanded, filtered, contracted
    "mobilenet-bn": [
        *(16, 16, 16),
        *(64, 64, 24, 96, 96, 24, 96, 96, 32, 128, 128, 32, 128, 128, 64, 256, 256, 64),
        256,
    ],
}
"""Channels of each layer of batch normalisation."""


def test_exactly_the_networks_of_the_catalogue_can_be_built() -> None:
    assert list(NETWORKS) == list(BUILDERS) == list(PARAMETERS)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_as_many_parameters_as_its_layers(name: str) -> None:
    stated, layers = PARAMETERS[name]
    assert sum(layers) == stated == NETWORKS[name].parameters == flat(made(name)).numel()


@pytest.mark.parametrize("name", NETWORKS)
def test_batch_normalisation_has_a_mean_and_a_variance_for_each_channel_and_a_counter(name: str) -> None:
    buffers = list(made(name).buffers())
    channels = NORMALISED.get(name, [])
    numbers = sum(buffer.numel() for buffer in buffers if buffer.is_floating_point())
    assert numbers == 2 * sum(channels) == NETWORKS[name].buffers
    assert len(buffers) == 3 * len(channels)


@pytest.mark.parametrize(("classes", "parameters"), [(65, 109_376), (80, 110_336)])
def test_the_scores_of_the_transformer_are_products_with_its_embeddings(classes: int, parameters: int) -> None:
    network = build("tiny-transformer", 1, classes=classes)
    assert flat(network).numel() == parameters == 105_216 + 64 * classes
    assert isinstance(network, TinyTransformer)
    assert network.scores.weight is network.characters.weight


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
def test_a_network_without_batch_normalisation_computes_the_same_in_training(name: str) -> None:
    network = made(name)
    inputs = some(name, 2)
    with torch.no_grad():
        trained, evaluated = network.train()(inputs), network.eval()(inputs)
    assert torch.equal(trained, evaluated) == (name not in NORMALISED)  # no dropout


def test_the_transformer_reads_all_characters_in_their_order_and_at_most_80() -> None:
    network = build("tiny-transformer", 1, classes=65)
    characters = torch.arange(20)[None]
    changed = characters.clone()
    changed[0, 0] = 40
    with torch.no_grad():
        scores = [network(each) for each in (characters, changed, characters.flip(1))]
        assert scores[0].shape == (1, 65)
        assert not any(torch.equal(scores[0], other) for other in scores[1:])
    with pytest.raises(ValueError, match="81 characters; this network reads at most 80"):
        network(torch.zeros((1, 81), dtype=torch.int64))


def test_attention_is_that_of_torch_and_no_position_sees_a_later_one() -> None:
    rows = torch.randn(3, 2, 4, 7, 16, generator=torch.Generator().manual_seed(1))
    expected = nn.functional.scaled_dot_product_attention(*rows, is_causal=True)
    torch.testing.assert_close(CausalAttention()(rows), expected)
    rows[:, :, :, 5:] = 0.0
    torch.testing.assert_close(CausalAttention()(rows)[:, :, :5], expected[:, :, :5])


def test_the_depthwise_filters_of_the_mobile_network_see_one_channel_each() -> None:
    filters = [layer for layer in made("mobilenet").modules() if isinstance(layer, nn.Conv2d) and layer.groups > 1]
    assert [layer.groups for layer in filters] == [layer.out_channels for layer in filters]
    assert len(filters) == 7


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet18-bn", "mobilenet", "mobilenet-bn", "tiny-transformer"])
def test_a_network_learns_some_samples(name: str) -> None:
    assert _learnt(made(name), some(name, 4), torch.tensor([1, 2, 3, 4])) > 0.3


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
