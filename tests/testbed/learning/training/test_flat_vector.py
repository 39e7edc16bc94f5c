"""Networks over flat vectors: what is in the vector, what a device keeps, and what is set back."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from testbed.common.errors import UserError
from testbed.learning.models.building import build
from testbed.learning.training.flat_vector import FlatModel


def normalised(**options: float | None) -> nn.Sequential:
    """A network with batch normalisation: 8 + 4 parameters, 4 numbers in buffers and a counter."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, **options))  # type: ignore[arg-type]


def batch(seed: int = 1, samples: int = 6) -> torch.Tensor:
    return torch.randn(samples, 3, generator=torch.Generator().manual_seed(seed))


def trained(module: nn.Module, inputs: torch.Tensor) -> None:
    """Do a step of gradient descent with torch's means."""
    module.zero_grad()
    module(inputs).square().sum().backward()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def assert_views(model: FlatModel) -> None:
    """Every parameter, its gradient and every float buffer of the vector are where the vector has them."""
    tensors = dict(model.module.named_parameters()) | dict(model.module.named_buffers())
    place = 0
    for name, shape in model.names:
        assert tensors[name].data_ptr() == model.vector[place:].data_ptr(), name
        assert tensors[name].shape == shape
        gradient = tensors[name].grad
        if tensors[name].requires_grad:
            assert gradient is not None
            assert gradient.data_ptr() == model.gradient[place:].data_ptr(), name
        place += shape.numel()
    assert place == model.vector.numel()


# ---- what is in the vector


def test_the_vector_has_the_parameters_and_then_the_means_and_variances() -> None:
    model = FlatModel(normalised())
    names = [name for name, _ in model.names]
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    assert (model.vector.numel(), model.weights.numel(), model.gradient.numel()) == (16, 12, 12)
    assert model.vector[-4:].tolist() == [0, 0, 1, 1]
    assert list(model.kept()) == ["1.num_batches_tracked"]
    assert_views(model)


def test_with_local_buffers_the_vector_has_parameters_only() -> None:
    model = FlatModel(normalised(), local_buffers=True)
    assert model.vector.numel() == model.weights.numel() == 12
    assert list(model.kept()) == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert_views(model)


def test_a_network_of_the_catalogue_has_its_parameters_and_buffers_in_the_vector() -> None:
    assert FlatModel(build("mobilenet-bn", 1)).vector.numel() == 96_650 + 4_160
    assert FlatModel(build("mobilenet-bn", 1), local_buffers=True).vector.numel() == 96_650


def test_tied_weights_are_in_the_vector_once_and_stay_tied() -> None:
    network = build("tiny-transformer", 1, classes=65)
    model = FlatModel(network)
    assert model.vector.numel() == 109_376
    model.load(np.linspace(-1, 1, 109_376, dtype=np.float32))
    scores, characters = network.get_parameter("scores.weight"), network.get_parameter("characters.weight")
    assert scores.data_ptr() == characters.data_ptr() == model.vector.data_ptr()


def test_a_buffer_that_two_layers_share_is_in_the_vector_once_and_stays_shared() -> None:
    first, second = nn.Module(), nn.Module()
    shared = torch.ones(2)
    first.register_buffer("scale", shared)
    second.register_buffer("factor", shared)
    model = FlatModel(nn.ModuleList([first, second]))
    model.load(np.array([5, 6], np.float32))
    assert first.scale.tolist() == second.factor.tolist() == [5, 6]  # type: ignore[operator, union-attr]


def test_parameters_that_need_no_gradient_come_last_and_no_step_changes_them() -> None:
    network = normalised()
    network[0].weight.requires_grad_(False)
    model = FlatModel(network)
    assert [name for name, _ in model.names][-3:] == ["0.weight", "1.running_mean", "1.running_var"]
    assert model.weights.numel() == 12 - 6
    before = state(network)
    model.weights.add_(1.0)  # such as by weight decay
    assert torch.equal(network[0].weight, before["0.weight"])
    assert torch.equal(network[0].bias, before["0.bias"] + 1)


def test_a_network_of_other_numbers_is_refused_with_a_remedy() -> None:
    with pytest.raises(UserError, match=r"0\.weight of the network is float64; float32 is wanted: return network\.f"):
        FlatModel(normalised().double())
    layer = nn.Module()
    layer.register_buffer("mean", torch.zeros(2, dtype=torch.float16))
    with pytest.raises(UserError, match="mean of the network is float16"):
        FlatModel(layer)
    assert FlatModel(layer, local_buffers=True).kept()["mean"].dtype == torch.float16


def test_a_network_without_sizes_is_refused_with_a_remedy() -> None:
    with pytest.raises(UserError, match="weight of the network has no size yet; call the network with one sample"):
        FlatModel(nn.LazyLinear(3))


# ---- loading, and views after training


def test_loading_sets_parameters_and_buffers_to_the_numbers_of_the_vector() -> None:
    model = FlatModel(normalised())
    model.load(np.arange(16, dtype=np.float32))
    found = torch.cat([dict(model.module.state_dict())[name].flatten() for name, _ in model.names])
    assert found.tolist() == list(range(16))
    assert_views(model)


def test_a_step_changes_parameters_and_means_in_the_vector_as_in_torch() -> None:
    model, plain = FlatModel(normalised()), normalised()
    trained(model.module, batch())
    trained(plain, batch())
    model.gather()
    found = model.module.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in plain.state_dict().items())
    assert torch.equal(model.vector[-4:-2], plain[1].running_mean)
    assert_views(model)


def test_gradients_that_training_removed_or_made_again_are_views_again() -> None:
    model = FlatModel(normalised())
    model.module.zero_grad(set_to_none=True)
    model.module(batch()).sum().backward()
    model.gather()
    assert_views(model)
    model.module.zero_grad(set_to_none=True)
    model.load(np.ones(16, np.float32))
    assert_views(model)
    assert not model.gradient.any()  # a job begins without the gradient of another one


def test_values_that_training_put_elsewhere_are_copied_into_the_vector() -> None:
    model = FlatModel(normalised())
    linear, layer = model.module[0], model.module[1]  # type: ignore[index]
    linear.weight = nn.Parameter(torch.full((2, 3), 7.0))
    linear.bias.data = torch.full((2,), 8.0)
    layer.running_mean = torch.full((2,), 9.0)
    model.gather()
    assert model.vector[:8].tolist() == [7.0] * 6 + [8.0] * 2
    assert model.vector[-4:].tolist() == [9.0, 9.0, 1.0, 1.0]
    assert_views(model)


def test_what_an_abandoned_job_put_elsewhere_does_not_reach_the_next() -> None:
    model = FlatModel(normalised())
    model.module[0].weight = nn.Parameter(torch.zeros(2, 3))  # type: ignore[index]
    model.module[1].running_var = torch.zeros(5)  # type: ignore[index]
    model.load(np.arange(16, dtype=np.float32))
    assert model.vector.tolist() == list(range(16))
    assert_views(model)


@pytest.mark.parametrize("wrong", [torch.zeros(3), torch.zeros(2, dtype=torch.float64), None])
def test_a_buffer_of_another_shape_or_type_after_training_is_named(wrong: torch.Tensor | None) -> None:
    model = FlatModel(normalised())
    model.module[1].running_mean = wrong  # type: ignore[index]
    with pytest.raises(ValueError, match=r"1\.running_mean is .* after training; it must be torch\.float32 of shape"):
        model.gather()


def test_a_negative_variance_is_set_to_zero_and_nothing_else_is_changed() -> None:
    model = FlatModel(normalised())
    model.load(np.full(16, -2.0, np.float32))
    assert model.vector.tolist() == [-2.0] * 14 + [0.0, 0.0]
    model.module.eval()
    assert model.module(batch()).isfinite().all()


# ---- the mean of buffers


def test_the_mean_of_two_models_has_the_mean_statistics_of_two_networks_of_torch() -> None:
    """Two devices train on data of their own; FedAvg's mean of their vectors is that of their state dictionaries."""
    model, start = FlatModel(normalised()), FlatModel(normalised()).vector.numpy().copy()
    vectors, networks = [], [normalised() for _ in range(2)]
    for seed, network in enumerate(networks):
        model.load(start)
        for step in range(3):
            trained(model.module, batch(10 * seed + step))
            trained(network, batch(10 * seed + step))
        model.gather()
        vectors.append(model.vector.numpy().copy())
    model.load((vectors[0] + vectors[1]) / 2)
    one, two = (network[1] for network in networks)
    torch.testing.assert_close(model.module[1].running_mean, (one.running_mean + two.running_mean) / 2)  # type: ignore[index]
    torch.testing.assert_close(model.module[1].running_var, (one.running_var + two.running_var) / 2)  # type: ignore[index]
    assert not torch.equal(one.running_mean, two.running_mean)


# ---- what a device keeps


def test_a_counter_continues_where_the_device_left_it_and_begins_with_0_without_memory() -> None:
    model = FlatModel(normalised(momentum=None))  # the means are cumulative: they depend on the counter
    start = model.vector.numpy().copy()
    model.load(start)
    trained(model.module, batch())
    model.gather()
    after, kept = model.vector.numpy().copy(), model.kept()
    assert kept["1.num_batches_tracked"] == 1
    results = []
    for memory in (kept, None, copy.deepcopy(kept)):
        model.load(after, memory)
        trained(model.module, batch(2))
        model.gather()
        results.append(model.vector[-4:].clone())
        assert model.kept()["1.num_batches_tracked"] == (1 if memory is None else 2)
    assert torch.equal(results[0], results[2])
    plain = normalised(momentum=None)
    for seed in (1, 2):
        trained(plain, batch(seed))
    assert torch.equal(results[0][:2], plain[1].running_mean)  # as if the two jobs were one
    assert not torch.equal(results[0], results[1])


def test_what_a_device_keeps_is_not_changed_by_the_next_job() -> None:
    model = FlatModel(normalised(), local_buffers=True)
    trained(model.module, batch())
    kept = model.kept()
    copies = copy.deepcopy(kept)
    model.load(model.vector.numpy().copy(), kept)
    trained(model.module, batch(2))
    assert all(torch.equal(kept[name], copies[name]) for name in kept)
    assert not torch.equal(model.kept()["1.running_mean"], kept["1.running_mean"])


def test_local_buffers_begin_as_the_network_was_made() -> None:
    model = FlatModel(normalised(), local_buffers=True)
    trained(model.module, batch())
    model.load(model.vector.numpy().copy())
    assert model.module[1].running_mean.tolist() == [0, 0]  # type: ignore[index]
    assert model.module[1].running_var.tolist() == [1, 1]  # type: ignore[index]


# ---- what is set back


class Cached(nn.Module):
    """A layer that writes into a buffer that is not saved, and makes one that was empty."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))
        self.register_buffer("calls", torch.zeros(1), persistent=False)
        self.register_buffer("last", None)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = inputs.detach()
        return inputs * self.factor * self.calls


def test_buffers_that_are_not_saved_begin_every_job_as_at_first() -> None:
    model = FlatModel(Cached())
    assert [name for name, _ in model.names] == ["factor"]
    for _ in range(2):
        model.load(np.ones(1, np.float32))
        assert model.module.last is None
        assert model.module(torch.ones(1)) == 1.0
        assert model.kept() == {}


def test_modes_and_gradients_that_a_job_switched_off_are_on_again_in_the_next() -> None:
    network = normalised()
    network[1].eval()  # the statistics of this layer are frozen
    model = FlatModel(network)
    network.eval()
    network[0].weight.requires_grad_(False)
    model.load(np.ones(16, np.float32))
    assert (network.training, network[0].training, network[1].training) == (True, True, False)
    assert network[0].weight.requires_grad
    assert_views(model)


def test_a_network_in_evaluation_mode_is_trained_in_training_mode() -> None:
    network = normalised().eval()
    FlatModel(network)
    assert all(part.training for part in network.modules())
