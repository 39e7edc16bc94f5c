"""Networks that adapt to the shape of samples and to the number of outputs."""

from __future__ import annotations

import pytest
import torch

from testbed.learning.models import NETWORKS, fitting, flops
from testbed.learning.models.building import build, build_for

EVERY = ("mlp", "linear", "small-cnn", "cnn", "lenet", "femnist-cnn")


@pytest.mark.parametrize("name", [name for name, network in NETWORKS.items() if network.adapts])
def test_a_network_that_adapts_has_the_stated_flops_and_parameters_for_its_own_samples(name: str) -> None:
    network = NETWORKS[name]
    adapted = build_for(name, network.inputs, network.outputs, (64, 32))
    assert sum(each.numel() for each in adapted.parameters()) == network.parameters
    assert flops.per_sample(adapted, torch.zeros((1, *network.inputs)))[1] == network.flops
    torch.manual_seed(3)
    first = build_for(name, network.inputs, network.outputs, (64, 32))
    assert all(map(torch.equal, first.parameters(), build(name, 3, **network.sizes).parameters()))


@pytest.mark.parametrize(
    ("name", "shape", "outputs"),
    [
        ("mlp", (7,), 3),
        ("mlp", (3, 5, 4), 2),
        ("linear", (7,), 1),
        ("linear", (1, 5, 5), 4),
        ("small-cnn", (1, 4, 4), 2),
        ("small-cnn", (3, 33, 17), 5),
        ("cnn", (1, 28, 28), 10),
    ],
)
def test_a_network_has_as_many_outputs_as_wanted_for_each_sample(
    name: str, shape: tuple[int, ...], outputs: int
) -> None:
    assert fitting.misfit(name, shape, outputs, EVERY) == ""
    assert build_for(name, shape, outputs, (9,))(torch.zeros((2, *shape))).shape == (2, outputs)


def test_a_perceptron_has_the_given_widths() -> None:
    widths = [
        layer.out_features for layer in build_for("mlp", (7,), 3, (9, 8, 4)) if isinstance(layer, torch.nn.Linear)
    ]
    assert widths == [9, 8, 4, 3]


@pytest.mark.parametrize(
    ("name", "shape", "outputs", "problem"),
    [
        ("small-cnn", (7,), 3, "needs images of at least 4×4; these samples are 7, for 3 outputs: use mlp, linear"),
        (
            "small-cnn",
            (1, 3, 9),
            3,
            "needs images of at least 4×4; these samples are 1×3×9, for 3 outputs: use mlp, linear",
        ),
        (
            "lenet",
            (1, 28, 28),
            10,
            "needs samples of 3×32×32 and 10 outputs; these samples are 1×28×28, for 10 outputs: use mlp, linear,"
            " small-cnn, cnn",
        ),
        (
            "cnn",
            (1, 28, 28),
            1,
            "needs samples of 1×28×28 and 10 outputs; these samples are 1×28×28, for 1 output: use mlp, linear,"
            " small-cnn",
        ),
    ],
)
def test_a_network_that_does_not_fit_is_told_with_those_that_do(
    name: str, shape: tuple[int, ...], outputs: int, problem: str
) -> None:
    assert fitting.misfit(name, shape, outputs, EVERY) == problem


def test_a_network_for_text_fits_no_vector_of_numbers() -> None:
    assert fitting.misfit("char-lstm", (80,), 80, EVERY)
