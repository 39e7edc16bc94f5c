"""A task that is ready for training, with the embedded digits: partitioned data, a network over a flat vector."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from testbed.common.parameters import ParameterError, parameters_of
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.digits import Digits
from testbed.learning.tasks.setting import Setting
from testbed.learning.training.network_task import NetworkTask

# 1,797 images: a fifth for testing, rounded down, is 359
TRAINING, TESTING = 1438, 359


def opened(devices: int = 8, seed: int = 1, **parameters: object) -> NetworkTask:
    task = Digits(**parameters).open(Setting(devices=devices, data_seed=seed, model_seed=seed))  # type: ignore[arg-type]
    assert isinstance(task, NetworkTask)
    return task


@pytest.fixture(scope="module")
def digits() -> NetworkTask:
    return opened()


@pytest.fixture(scope="module")
def large() -> NetworkTask:
    return opened(model="cnn", split="iid")


def test_every_task_of_the_catalogue_has_a_title_and_those_without_a_path_can_be_made_with_defaults() -> None:
    assert TASKS["digits"] is Digits
    for cls in TASKS.values():
        assert cls.__doc__
        if not any(each.required for each in parameters_of(cls)):
            cls()


def test_the_networks_have_their_published_sizes(digits: NetworkTask, large: NetworkTask) -> None:
    assert digits.size == 6_090
    assert large.size == 21_840


@pytest.mark.parametrize("split", ["dirichlet", "iid"])
@pytest.mark.parametrize("devices", [1, 8, 100])
def test_shards_are_disjoint_and_cover_the_training_data(split: str, devices: int) -> None:
    shards = opened(devices, split=split).shards
    assert len(shards) == devices
    assert np.array_equal(np.sort(np.concatenate(shards)), np.arange(TRAINING))
    assert min(len(shard) for shard in shards) >= 1


def test_equal_shares_are_equal(large: NetworkTask) -> None:
    assert {len(shard) for shard in large.shards} == {179, 180}


def test_the_same_seed_gives_the_same_task_and_another_seed_another(digits: NetworkTask) -> None:
    same, other = opened(), opened(seed=2)
    assert np.array_equal(same.initial(), digits.initial())
    assert all(np.array_equal(one, two) for one, two in zip(same.shards, digits.shards, strict=True))
    assert same.evaluate(same.initial()) == digits.evaluate(digits.initial())
    assert not np.array_equal(other.initial(), digits.initial())
    assert [len(shard) for shard in other.shards] != [len(shard) for shard in digits.shards]


def test_opening_a_task_does_not_change_global_generators() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    opened(devices=2)
    assert torch.equal(torch.rand(1), expected)


def test_the_test_data_does_not_depend_on_the_number_of_devices(digits: NetworkTask) -> None:
    few = opened(devices=2)
    assert few.evaluate(digits.initial()) == digits.evaluate(digits.initial())


# ---- the flat model


def test_parameters_are_views_into_the_vector(digits: NetworkTask) -> None:
    digits.model.load(np.arange(digits.size, dtype=np.float32))
    flat = torch.cat([parameter.detach().flatten() for parameter in digits.model.module.parameters()])
    assert torch.equal(flat, torch.arange(digits.size, dtype=torch.float32))
    last = list(digits.model.module.parameters())[-1]
    with torch.no_grad():
        last[-1] = -5.0
    assert digits.model.vector[-1] == -5.0


def test_gradients_are_views_into_the_gradient_before_and_after_a_step(digits: NetworkTask) -> None:
    digits.model.load(digits.initial())
    for _ in range(2):
        digits.gradient(digits.shards[0][:4])
        parts = [p.grad for p in digits.model.module.parameters() if p.grad is not None]
        assert parts[0].data_ptr() == digits.model.gradient.data_ptr()
        assert torch.equal(torch.cat([part.flatten() for part in parts]), digits.model.gradient)


def test_a_gradient_replaces_the_one_before(digits: NetworkTask) -> None:
    digits.model.load(digits.initial())
    losses, gradients = [], []
    for _ in range(2):
        losses.append(digits.gradient(digits.shards[0]))
        gradients.append(digits.model.gradient.clone())
    assert losses[0] == losses[1]
    assert torch.equal(gradients[0], gradients[1])


def test_a_gradient_equals_that_computed_by_hand(digits: NetworkTask) -> None:
    # all weights 0: ten equal scores, so the loss is ln 10 and the last biases get 1/10 − [is the label]
    digits.model.load(np.zeros(digits.size, np.float32))
    assert digits.gradient(np.array([3])) == pytest.approx(math.log(10), rel=1e-6)
    biases = np.sort(digits.model.gradient.numpy()[-10:])
    np.testing.assert_allclose(biases, [-0.9] + [0.1] * 9, rtol=1e-5)


def test_a_read_only_vector_can_be_loaded(digits: NetworkTask) -> None:
    received = np.frombuffer(digits.initial().tobytes(), dtype=np.float32)
    digits.model.load(received)
    assert np.array_equal(digits.model.vector.numpy(), received)


def test_training_never_changes_the_initial_model(digits: NetworkTask) -> None:
    before = digits.initial()
    digits.initial()[:] = 7.0
    digits.model.vector.fill_(3.0)
    assert np.array_equal(digits.initial(), before)


# ---- evaluation and checkpoints


def test_an_untrained_model_is_about_as_accurate_as_guessing(digits: NetworkTask, large: NetworkTask) -> None:
    for task in (digits, large):
        score = task.evaluate(task.initial())
        assert 0.0 < score["accuracy"] < 0.35
        assert score["loss"] == pytest.approx(math.log(10), abs=0.2)


def test_the_accuracy_of_a_model_that_always_predicts_one_digit_is_the_share_of_that_digit(digits: NetworkTask) -> None:
    scores = []
    for digit in range(10):
        model = np.zeros(digits.size, np.float32)
        model[digits.size - 10 + digit] = 1.0
        scores.append(digits.evaluate(model)["accuracy"])
    assert sum(scores) == pytest.approx(1.0)
    counts = [score * TESTING for score in scores]
    assert counts == pytest.approx([round(count) for count in counts])


def test_a_few_steps_down_the_gradient_make_the_model_better(digits: NetworkTask) -> None:
    model = digits.initial()
    for _ in range(80):
        digits.model.load(model)
        digits.gradient(np.arange(200))
        model -= 0.2 * digits.model.gradient.numpy()
    assert digits.evaluate(model)["loss"] < digits.evaluate(digits.initial())["loss"] - 0.2


def test_named_tensors_of_a_vector_have_the_networks_shapes_and_join_to_the_vector(digits: NetworkTask) -> None:
    vector = np.arange(digits.size, dtype=np.float32)
    tensors = digits.tensors(vector)
    digits.model.load(vector)
    state = digits.model.module.state_dict()
    assert list(tensors) == list(state)
    assert all(np.array_equal(tensors[name], state[name].numpy()) for name in state)
    assert np.array_equal(np.concatenate([tensor.ravel() for tensor in tensors.values()]), vector)


# ---- seeds and splits


def test_data_seed_and_model_seed_are_independent() -> None:
    one = Digits().open(Setting(devices=8, data_seed=1, model_seed=1))
    other_model = Digits().open(Setting(devices=8, data_seed=1, model_seed=2))
    other_data = Digits().open(Setting(devices=8, data_seed=2, model_seed=1))
    assert all(np.array_equal(a, b) for a, b in zip(one.shards, other_model.shards, strict=True))
    assert not np.array_equal(one.initial(), other_model.initial())
    assert np.array_equal(one.initial(), other_data.initial())
    assert [len(shard) for shard in one.shards] != [len(shard) for shard in other_data.shards]


@pytest.mark.parametrize("split", ["iid", "dirichlet"])
def test_more_devices_than_samples_are_refused_with_a_remedy(split: str) -> None:
    problem = "1438 training samples cannot be split over 1439 devices; use fewer devices"
    with pytest.raises(ParameterError, match=problem) as caught:
        opened(TRAINING + 1, split=split)
    assert caught.value.key == "split.name"


def test_a_subset_of_test_samples_is_drawn_with_the_data_seed() -> None:
    def tested(seed: int) -> list[int]:
        recipe, setting = Digits(test_samples=50), Setting(devices=4, data_seed=seed)
        return recipe.assign(recipe.dataset(setting), setting)[1].tolist()

    assert tested(1) == tested(1) != tested(2)
    assert len(set(tested(1))) == 50
    assert len(opened(test_samples=TESTING + 1).shards) == 8  # more than the data has: all


# ---- large batches


def linear_task(samples: int) -> NetworkTask:
    rng = np.random.default_rng(3)
    part = Subset(
        inputs=rng.normal(size=(samples, 4)).astype(np.float32), targets=rng.integers(0, 3, samples).astype(np.uint8)
    )
    module = nn.Linear(4, 3)
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.linspace(-1, 1 + number, parameter.numel()).view_as(parameter))
    return NetworkTask(module=module, data=DataSet(train=part, test=part), shards=[np.arange(samples)])


def test_the_gradient_of_a_batch_in_pieces_equals_that_of_the_whole() -> None:
    task = linear_task(1300)  # 512 + 512 + 276
    loss = task.gradient(np.arange(1300))
    inputs, targets = task._batch(task._data.train, np.arange(1300))
    whole = nn.functional.cross_entropy(task.model.module(inputs), targets)
    gradients = torch.autograd.grad(whole, list(task.model.module.parameters()))
    assert loss == pytest.approx(whole.item(), rel=1e-6)
    torch.testing.assert_close(task.model.gradient, torch.cat([g.flatten() for g in gradients]))


def test_scores_over_pieces_are_means_over_all_test_samples() -> None:
    task = linear_task(1300)
    inputs, targets = task._batch(task._data.test, np.arange(1300))
    outputs = task.model.module(inputs).detach()
    score = task.evaluate(task.initial())
    assert score["accuracy"] == pytest.approx(float((outputs.argmax(1) == targets).float().mean()), rel=1e-6)
    assert score["loss"] == pytest.approx(float(nn.functional.cross_entropy(outputs, targets)), rel=1e-5)


# ---- inputs of the network


def test_bytes_are_normalised_by_channel() -> None:
    images = np.zeros((2, 3, 2, 2), np.uint8)
    images[1] = 255
    part = Subset(inputs=images, targets=np.array([0, 1], np.uint8))
    data = DataSet(train=part, test=part, mean=(0.0, 51.0, 255.0), std=(255.0, 51.0, -255.0))
    task = NetworkTask(module=nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), data=data, shards=[np.arange(2)])
    inputs, targets = task._batch(part, np.arange(2))
    assert inputs.dtype == torch.float32
    assert targets.dtype == torch.int64
    assert inputs[:, :, 0, 0].tolist() == [[0.0, -1.0, 1.0], [1.0, 4.0, 0.0]]


def test_characters_are_whole_numbers_and_values_are_floats() -> None:
    part = Subset(inputs=np.array([[1, 2], [3, 4]], np.uint8), targets=np.array([0.5, 2.5]))
    task = NetworkTask(
        module=nn.Linear(1, 1),
        data=DataSet(train=part, test=part),
        shards=[np.arange(2)],
        loss=lambda outputs, targets: targets.mean(),
    )
    inputs, targets = task._batch(part, np.array([1]))
    assert (inputs.dtype, targets.dtype) == (torch.int64, torch.float32)
    assert (inputs.tolist(), targets.tolist()) == ([[3, 4]], [2.5])
