"""Tasks with generated data: Synthetic(α, β), linear regression, a linear SVM."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from testbed.learning.tasks.linear_tasks import Regression, Svm
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting
from testbed.learning.tasks.synthetic import Synthetic

SETTING = Setting(devices=10, data_seed=3, model_seed=3)


@pytest.mark.parametrize("recipe", [Synthetic(), Regression(), Svm()], ids=lambda recipe: type(recipe).__name__)
def test_generated_data_depends_only_on_the_data_seed(recipe: Recipe) -> None:
    def inputs(seed: int, model: int = 0) -> np.ndarray:
        data = recipe.dataset(Setting(devices=4, data_seed=seed, model_seed=model))
        return data.train.inputs[np.arange(5)]

    assert np.array_equal(inputs(1), inputs(1, model=7))
    assert not np.array_equal(inputs(1), inputs(2))


# ---- linear regression and SVM


def test_regression_data_is_the_linear_function_of_the_paper_with_noise() -> None:
    data = Regression().dataset(SETTING)
    assert (len(data.train), len(data.test)) == (2_000, 500)
    inputs = np.asarray(data.train.inputs[np.arange(2_000)], np.float64)
    assert (inputs.min() >= -5, inputs.max() <= 5, inputs.shape[1]) == (True, True, 10)
    design = np.column_stack([inputs, np.ones(2_000)])
    solution, residual, *_ = np.linalg.lstsq(design, data.train.targets.astype(np.float64), rcond=None)
    assert ((solution[:10] > 1.98) & (solution[:10] < 4.02)).all()
    assert solution[10] == pytest.approx(5.0, abs=0.05)
    assert np.sqrt(residual[0] / 2_000) == pytest.approx(0.2, rel=0.1)


def test_the_loss_is_half_the_squared_error_and_mse_is_twice_the_loss() -> None:
    outputs, targets = torch.tensor([[1.0], [3.0]]), torch.tensor([2.0, 0.0])
    recipe = Regression()
    assert float(recipe.loss(outputs, targets)) == pytest.approx((1 + 9) / 2 / 2)
    assert recipe.metrics(outputs, targets) == {"mse": pytest.approx(5.0)}


def test_the_true_weights_of_regression_leave_only_the_noise() -> None:
    task = Regression().open(SETTING)
    inputs, targets = task._batch(task._data.train, np.arange(2_000))
    design = np.column_stack([inputs.numpy(), np.ones(2_000)])
    solution = np.linalg.lstsq(design, targets.numpy(), rcond=None)[0].astype(np.float32)
    score = task.evaluate(solution)
    assert set(score) == {"mse", "loss"}
    assert score["mse"] == pytest.approx(0.04, rel=0.2)
    assert score["loss"] == pytest.approx(score["mse"] / 2, rel=1e-5)


def test_the_hinge_loss_equals_that_computed_by_hand() -> None:
    # y·f: +1·0.5 → 0.5; −1·0.5 → 1.5; +1·2 → 0; −1·−3 → 0
    outputs, targets = torch.tensor([[0.5], [0.5], [2.0], [-3.0]]), torch.tensor([1, 0, 1, 0])
    recipe = Svm()
    assert float(recipe.loss(outputs, targets)) == pytest.approx((0.5 + 1.5) / 4)
    assert recipe.metrics(outputs, targets) == {"accuracy": pytest.approx(0.75)}


def test_a_plane_separates_the_labels_of_the_svm() -> None:
    data = Svm().dataset(SETTING)
    assert data.classes == ("−1", "+1")
    share = float(data.train.targets.mean())
    assert 0.5 < share < 0.8  # the bias of 5 puts more than half on the positive side


@pytest.mark.parametrize("recipe", [Regression(), Svm()], ids=lambda recipe: type(recipe).__name__)
def test_full_batch_descent_lowers_the_loss_of_a_linear_model(recipe: Recipe) -> None:
    task = recipe.open(SETTING)
    model = task.initial()
    before = task.evaluate(model)["loss"]
    for _ in range(50):
        task.model.load(model)
        task.gradient(np.arange(2_000))
        model -= 0.02 * task.model.gradient.numpy()
    assert task.evaluate(model)["loss"] < 0.2 * before


# ---- Synthetic(α, β)


def test_each_device_of_synthetic_has_its_own_data_and_a_tenth_is_for_testing() -> None:
    recipe = Synthetic()
    data = recipe.dataset(SETTING)
    shards, test = recipe.assign(data, SETTING)
    assert data.train.owners is not None
    assert data.test.owners is not None
    owners = [set(data.train.owners[shard].tolist()) for shard in shards]
    assert sorted(next(iter(owner)) for owner in owners) == list(range(10))
    assert all(len(owner) == 1 for owner in owners)
    assert len(test) == len(data.test)
    for device in range(10):
        trained, tested = (int((part.owners == device).sum()) for part in (data.train, data.test))
        assert tested == round(0.1 * (trained + tested))
        assert trained + tested >= 50


def test_inputs_of_synthetic_have_the_variances_of_the_paper() -> None:
    # one device with many samples: its inputs have the variances j^−1.2 around a centre
    part = Synthetic(alpha=0, beta=0)._of_device(50_000, np.random.default_rng(1))
    np.testing.assert_allclose(part[0].var(axis=0), np.arange(1, 61) ** -1.2, rtol=0.05)


def test_devices_of_synthetic_differ_more_with_larger_alpha_and_beta() -> None:
    def spread(beta: float) -> float:
        rng = np.random.default_rng(5)
        means = [Synthetic(alpha=0, beta=beta)._of_device(50, rng)[0].mean() for _ in range(200)]
        return float(np.std(means))

    # the mean over 60 inputs of N(B_k, 1) has variance β² + 1/60 + a little noise
    assert spread(0) == pytest.approx((1 / 60) ** 0.5, rel=0.2)
    assert spread(3) == pytest.approx(3, rel=0.2)
