"""Optimisers on flat vectors, against those of torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from devices.compute import optimizers
from testbed.common.errors import ProfileError
from testbed.common.parameters import build
from testbed.learning.training.task import Memory
from testbed.wire.training_job import Job

STEPS = 25


def gradients(seed: int = 0) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(seed)
    scales = [10.0 ** ((step % 7) - 4) for step in range(STEPS)]
    return [torch.randn(5, generator=chance) * scale for scale in scales]


def rates(step: int) -> float:
    return 0.1 / math.sqrt(1 + step // 10)


def path(job: Job, memory: Memory | None = None, steps: range = range(STEPS)) -> list[torch.Tensor]:
    """The weights after each step."""
    weights, change, found = torch.linspace(-1, 1, 5), optimizers.optimizer_of(job, memory or {}), []
    for step in steps:
        change(weights, gradients()[step].clone(), rates(step))
        found.append(weights.clone())
    return found


def path_of_torch(kind: type[torch.optim.Optimizer], **settings: Any) -> list[torch.Tensor]:
    weights = torch.nn.Parameter(torch.linspace(-1, 1, 5))
    optimizer, found = kind([weights], lr=0.1, foreach=False, **settings), []  # type: ignore[call-arg]
    for step, gradient in enumerate(gradients()):
        optimizer.param_groups[0]["lr"] = rates(step)
        weights.grad = gradient.clone()
        optimizer.step()
        found.append(weights.detach().clone())
    return found


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.9), (0.0, 0.0)])
def test_adam_is_that_of_torch_step_by_step_and_bit_by_bit(decay: float, betas: tuple[float, float]) -> None:
    job = Job(optimizer="adam", beta_1=betas[0], beta_2=betas[1], weight_decay=decay)
    expected = path_of_torch(torch.optim.Adam, betas=betas, weight_decay=decay)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(path(job), expected, strict=True))


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_adamw_is_that_of_torch_step_by_step_and_bit_by_bit(decay: float, epsilon: float) -> None:
    job = Job(optimizer="adamw", epsilon=epsilon, weight_decay=decay)
    expected = path_of_torch(torch.optim.AdamW, eps=epsilon, weight_decay=decay)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(path(job), expected, strict=True))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_sgd_is_that_of_torch_step_by_step_and_bit_by_bit(momentum: float, decay: float) -> None:
    job = Job(momentum=momentum, weight_decay=decay)
    expected = path_of_torch(torch.optim.SGD, momentum=momentum, weight_decay=decay)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(path(job), expected, strict=True))


def test_the_first_step_of_adam_computed_by_hand() -> None:
    # m₁ = 0.1·g, m₂ = 0.001·g², both divided by their share: x − η·g/(|g| + ε)
    weights = torch.tensor([1.0, -2.0])
    optimizers.optimizer_of(Job(optimizer="adam"), {})(weights, torch.tensor([4.0, -0.5]), 0.1)
    assert weights.tolist() == pytest.approx([0.9, -1.9])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_kept_state_continues_in_the_next_job(optimizer: str) -> None:
    job, memory = Job(optimizer=optimizer, momentum=0.9, weight_decay=0.1, optimizer_state="kept"), Memory()
    whole, weights, halves = path(job), torch.linspace(-1, 1, 5), []
    for steps in (range(10), range(10, STEPS)):
        change = optimizers.optimizer_of(job, memory)
        for step in steps:
            change(weights, gradients()[step].clone(), rates(step))
            halves.append(weights.clone())
    assert all(torch.equal(one, two) for one, two in zip(whole, halves, strict=True))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_reset_state_leaves_nothing_for_the_next_job(optimizer: str) -> None:
    memory = Memory()
    path(Job(optimizer=optimizer, momentum=0.9), memory)
    assert memory == {}


@pytest.mark.parametrize("limit", [0.5, 3.0, 100.0])
def test_a_gradient_is_clipped_as_by_torch(limit: float) -> None:
    parameter = torch.nn.Parameter(torch.zeros(4))
    parameter.grad = torch.tensor([3.0, 4.0, 0.0, 12.0])  # norm 13
    gradient = parameter.grad.clone()
    torch.nn.utils.clip_grad_norm_([parameter], limit, foreach=False)
    optimizers.clip(gradient, limit)
    assert torch.equal(gradient, parameter.grad)
    assert float(gradient.norm()) == pytest.approx(min(13.0, limit), rel=1e-5)


@pytest.mark.parametrize(
    ("key", "value"),
    [("optimizer", "lion"), ("beta_1", 1.0), ("beta_2", -0.1), ("epsilon", 0.0), ("weight_decay", -1.0)],
)
def test_a_value_that_no_optimiser_has_is_refused_with_its_key(key: str, value: object) -> None:
    with pytest.raises(ProfileError, match=f"training.{key}"):
        build(Job, {key: value}, "profile", "training")
