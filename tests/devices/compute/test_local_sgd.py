from __future__ import annotations

import itertools
import warnings
from collections.abc import Generator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from devices.compute.local_sgd import local_sgd
from testbed.learning.training.task import VectorJob
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job
from tests.devices.tiny import INPUTS, LABELS, SHARD, TinyTask

BASE = np.array([0.1, -0.2, 0.3, 0.0, 0.5, -0.1, 0.05, -0.05], dtype=np.float32)
BASE.flags.writeable = False  # as a received frame is


def run(job: Job, seed: int = 0, task: TinyTask | None = None, number: int = 0) -> tuple[list[float], Vector]:
    return finished(steps(task or TinyTask(), job, BASE, seed, number))


def steps(task: TinyTask, job: Job, base: Vector, seed: int, number: int = 0) -> Generator[float, None, Vector]:
    """Train, and return the difference to the base."""
    rng = np.random.default_rng(seed)
    work = VectorJob(base=base, job=job, device=0, number=number, samples=SHARD, rng=rng, memory={})
    return (yield from local_sgd(task, work)) - base


def finished(steps: Generator[float, None, Vector]) -> tuple[list[float], Vector]:
    losses = []
    while True:
        try:
            losses.append(next(steps))
        except StopIteration as end:
            return losses, end.value


def loss_and_gradient(
    x: npt.NDArray[np.float64], samples: npt.ArrayLike = SHARD
) -> tuple[float, npt.NDArray[np.float64]]:
    """Softmax regression over these samples, by hand: weights row by row, then the two biases."""
    weights, bias, samples = x[:6].reshape(2, 3), x[6:], np.asarray(samples)
    inputs, labels = INPUTS[samples].astype(np.float64), LABELS[samples]
    scores = np.exp(inputs @ weights.T + bias)
    shares = scores / scores.sum(axis=1, keepdims=True)
    loss = -np.log(shares[range(len(samples)), labels]).mean()
    error = (shares - np.eye(2)[labels]) / len(samples)
    return float(loss), np.concatenate([(error.T @ inputs).ravel(), error.sum(axis=0)])


@pytest.mark.parametrize(("momentum", "proximal"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.8), (0.9, 0.3)])
def test_local_sgd_is_the_textbook_loop(momentum: float, proximal: float) -> None:
    base = BASE.astype(np.float64)
    x, velocity, expected_losses = base.copy(), np.zeros(8), []
    for _ in range(6):
        loss, gradient = loss_and_gradient(x)
        velocity = momentum * velocity + gradient + proximal * (x - base)
        x = x - 0.2 * velocity
        expected_losses.append(loss)
    # a batch of the whole shard: the order of the samples cannot matter
    losses, delta = run(Job(steps=6, batch=5, lr=0.2, momentum=momentum, proximal=proximal))
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    np.testing.assert_allclose(delta, x - base, rtol=1e-4, atol=1e-6)
    assert delta.dtype == np.float32


def test_the_base_is_not_changed() -> None:
    before = BASE.copy()
    _, delta = run(Job(steps=3, batch=2, momentum=0.5, proximal=0.1))
    np.testing.assert_array_equal(BASE, before)
    assert np.abs(delta).max() > 0


def test_the_same_generator_draws_the_same_batches() -> None:
    job, tasks = Job(steps=9, batch=2), [TinyTask(), TinyTask(), TinyTask()]
    results = [run(job, seed, task) for seed, task in zip((1, 1, 2), tasks, strict=True)]
    assert tasks[0].batches == tasks[1].batches != tasks[2].batches
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][0] == results[1][0]


def test_an_epoch_sees_every_sample_of_the_shard_once_and_its_last_batch_is_short() -> None:
    task = TinyTask()
    losses, _ = run(Job(epochs=2, batch=2), task=task)
    assert [len(batch) for batch in task.batches] == [2, 2, 1, 2, 2, 1]
    for epoch in (task.batches[:3], task.batches[3:]):
        assert sorted(itertools.chain(*epoch)) == SHARD.tolist()
    assert len(losses) == 6


def test_steps_continue_into_the_next_epoch() -> None:
    task = TinyTask()
    run(Job(steps=4, batch=3), task=task)
    assert [len(batch) for batch in task.batches] == [3, 2, 3, 2]
    assert sorted(task.batches[0] + task.batches[1]) == SHARD.tolist()


def test_a_batch_larger_than_the_shard_is_the_shard() -> None:
    task = TinyTask()
    run(Job(epochs=3, batch=32), task=task)
    assert [sorted(batch) for batch in task.batches] == [SHARD.tolist()] * 3


@pytest.mark.parametrize("job", [Job(steps=4), Job(epochs=4), Job(epochs=4, momentum=0.9, lr_schedule="inverse-sqrt")])
def test_a_batch_of_zero_is_the_whole_shard(job: Job) -> None:
    task = TinyTask()
    losses, delta = run(replace(job, batch=0), task=task)
    assert [sorted(batch) for batch in task.batches] == [SHARD.tolist()] * 4
    expected_losses, expected = run(replace(job, batch=len(SHARD)))
    assert losses == expected_losses
    np.testing.assert_array_equal(delta, expected)


# ---- a learning rate that falls


@pytest.mark.parametrize(
    ("batch", "epochs"),
    [
        (5, [0, 1, 2, 3, 4, 5, 6]),
        (32, [0, 1, 2, 3, 4, 5, 6]),  # a batch larger than the shard is an epoch
        (3, [0, 0, 1, 1, 2, 2, 3]),  # 3 + 2 samples
        (2, [0, 0, 0, 1, 1, 1, 2]),  # 2 + 2 + 1
        (4, [0, 0, 1, 1, 2, 2, 3]),  # 4 + 1
        (1, [0, 0, 0, 0, 0, 1, 1]),
    ],
)
@pytest.mark.parametrize(("momentum", "proximal"), [(0.0, 0.0), (0.9, 0.3)])
def test_the_inverse_root_of_the_local_epoch_shortens_its_steps(
    batch: int, epochs: list[int], momentum: float, proximal: float
) -> None:
    task = TinyTask()
    job = Job(steps=7, batch=batch, lr=0.2, lr_schedule="inverse-sqrt", momentum=momentum, proximal=proximal)
    losses, delta = run(job, task=task)
    base = BASE.astype(np.float64)
    x, velocity, expected_losses = base.copy(), np.zeros(8), []
    for samples, epoch in zip(task.batches, epochs, strict=True):
        loss, gradient = loss_and_gradient(x, samples)
        velocity = momentum * velocity + gradient + proximal * (x - base)
        x = x - 0.2 / np.sqrt(epoch + 1) * velocity
        expected_losses.append(loss)
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    np.testing.assert_allclose(delta, x - base, rtol=1e-4, atol=1e-6)


def test_a_falling_learning_rate_does_not_change_the_first_epoch_and_changes_all_others() -> None:
    constant, falling = Job(steps=3, batch=2), Job(steps=3, batch=2, lr_schedule="inverse-sqrt")
    np.testing.assert_array_equal(run(constant)[1], run(falling)[1])
    longer = [run(replace(job, steps=4))[1] - run(job)[1] for job in (constant, falling)]
    # the fourth step is the first of epoch 1
    np.testing.assert_allclose(longer[1], longer[0] / np.sqrt(2), rtol=1e-4, atol=1e-7)
    assert np.abs(longer[0]).max() > 1e-3


def test_the_local_epochs_of_each_job_are_counted_from_its_own_beginning() -> None:
    job, task = Job(epochs=3, batch=2, lr_schedule="inverse-sqrt"), TinyTask()
    first, second = run(job, 3, task)[1], run(job, 3, task)[1]
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("number", [0, 1, 2, 300])
def test_a_decaying_learning_rate_is_lower_in_each_job_of_the_device(number: int) -> None:
    job = Job(steps=5, batch=2, lr=0.2, momentum=0.5)
    losses, delta = run(replace(job, lr_decay=0.995), number=number)
    expected_losses, expected = run(replace(job, lr=0.2 * 0.995**number))
    assert losses == expected_losses
    np.testing.assert_array_equal(delta, expected)


def test_a_learning_rate_without_decay_is_the_same_in_all_jobs_of_the_device() -> None:
    job = Job(steps=5, batch=2)
    np.testing.assert_array_equal(run(job, number=0)[1], run(job, number=1000)[1])


# ---- against torch


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 1.0), (0.5, 1.0), (0.0, 0.9), (0.5, 0.995)])
@pytest.mark.parametrize("batch", [2, 0])
def test_successive_jobs_are_those_of_torch_with_its_exponential_learning_rate(
    batch: int, momentum: float, decay: float
) -> None:
    """Each job starts from the model of the one before; the velocity starts at zero, the learning rate continues."""
    job = Job(steps=4, batch=batch, lr=0.3, momentum=momentum, lr_decay=decay)
    x, theirs = torch.from_numpy(BASE.copy()), torch.nn.Linear(3, 2)
    for number in range(3):
        task = TinyTask()
        _, delta = finished(steps(task, job, x.numpy(), number, number))
        with torch.no_grad():
            theirs.weight.copy_(x[:6].view(2, 3))
            theirs.bias.copy_(x[6:])
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.3, momentum=momentum)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=decay)
        for _ in range(number):  # its state after so many jobs, before any step of the optimiser
            with warnings.catch_warnings(action="ignore"):
                schedule.step()
        for samples in task.batches:
            optimizer.zero_grad()
            scores = theirs(torch.from_numpy(INPUTS[samples]))
            torch.nn.functional.cross_entropy(scores, torch.from_numpy(LABELS[samples])).backward()
            optimizer.step()
        x = x + torch.from_numpy(delta)
        reached = torch.cat([theirs.weight.detach().flatten(), theirs.bias.detach()])
        torch.testing.assert_close(x, reached, rtol=1e-5, atol=1e-6)


def test_abandoned_training_does_not_change_the_next() -> None:
    job, task = Job(steps=4, batch=2, momentum=0.9), TinyTask()
    begun = steps(task, job, BASE, 7)
    next(begun)
    begun.close()
    np.testing.assert_array_equal(run(job, 3, task)[1], run(job, 3)[1])
