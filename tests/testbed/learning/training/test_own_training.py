"""Local training of the user's own: what it gets, what it may do, and what is said when it does something else."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from devices.compute.job_steps import training
from testbed.learning.training.local_job import LocalJob
from testbed.learning.training.own_training import OwnTrainingError, generators_restored
from testbed.learning.training.task import Memory
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job
from tests.testbed.learning.training.own_tasks import descend, task_of, work_on

JOB = Job(steps=5, batch=8, lr=0.1)


def trained(own: Any, job: Job = JOB, number: int = 0, **changes: Any) -> tuple[list[float], Vector]:
    """Losses and the new model."""
    task, losses = task_of(own, **changes), []
    steps = training(task, work_on(task, job, number=number))
    while True:
        try:
            losses.append(next(steps))
        except StopIteration as end:
            return losses, end.value.copy()


def problem_of(own: Callable[[LocalJob], Any], job: Job = JOB, number: int = 4) -> str:
    with pytest.raises(OwnTrainingError) as caught:
        trained(own, job, number)
    return str(caught.value)


# ---- what it gets


@pytest.mark.parametrize("job", [JOB, Job(epochs=3, batch=7, lr=0.2, lr_decay=0.9), Job(steps=9, batch=0)])
@pytest.mark.parametrize("number", [0, 6])
def test_the_default_loop_written_by_a_user_trains_the_same_model(job: Job, number: int) -> None:
    theirs, ours = trained(descend, job, number), trained(None, job, number)
    # the batches are those of the job's generator, from which the default loop draws one seed first
    assert len(theirs[0]) == len(ours[0]) == job.steps_over(20)
    assert theirs[0] == pytest.approx(ours[0], rel=1e-6)
    np.testing.assert_allclose(theirs[1], ours[1], rtol=1e-5, atol=1e-7)


def test_a_job_is_the_same_whenever_it_is_computed() -> None:
    def noisy(local: LocalJob) -> Iterator[float]:
        for _ in range(local.job.steps):
            noise = torch.rand(1).item() + np.random.rand() + random.random() + local.rng.random()
            with torch.no_grad():
                local.network.weight += noise
            yield noise

    assert trained(noisy)[0] == trained(noisy)[0] != trained(noisy, number=1)[0]


def test_a_whole_job_returns_its_mean_loss_and_has_one_step() -> None:
    def whole(local: LocalJob) -> float:
        return sum(float(loss.detach()) for loss in descend(local)) / local.job.steps

    losses, model = trained(whole, Job(steps=5, batch=8, lr=0.1, whole=True))
    stepwise = trained(descend)
    assert losses == [pytest.approx(sum(stepwise[0]) / 5)]
    assert np.array_equal(model, stepwise[1])


def test_a_generator_can_be_computed_as_a_whole() -> None:
    losses, model = trained(descend, Job(steps=5, batch=8, lr=0.1, whole=True))
    stepwise = trained(descend)
    assert losses == [pytest.approx(sum(stepwise[0]) / 5)]
    assert np.array_equal(model, stepwise[1])


def test_the_default_loop_can_be_computed_as_a_whole() -> None:
    losses, model = trained(None, Job(steps=5, batch=8, lr=0.1, whole=True))
    stepwise = trained(None)
    assert losses == [pytest.approx(sum(stepwise[0]) / 5)]
    assert np.array_equal(model, stepwise[1])


def test_a_whole_job_need_not_know_its_loss() -> None:
    losses, _ = trained(lambda local: None, Job(whole=True))
    assert len(losses) == 1
    assert np.isnan(losses[0])


def test_a_job_is_a_data_set_for_a_data_loader() -> None:
    seen: list[list[int]] = []

    def loader(local: LocalJob) -> float:
        assert len(local) == 20
        for inputs, targets in DataLoader(local, batch_size=6, shuffle=True):
            assert inputs.dtype == torch.float32
            assert targets.dtype == torch.int64
            seen.append(targets.tolist())
        return 0.0

    trained(loader, Job(whole=True))
    assert [len(batch) for batch in seen] == [6, 6, 6, 2]
    assert sum(map(sum, seen)) == 10


def test_memory_is_what_the_job_leaves() -> None:
    task, memory = task_of(lambda local: local.memory.update(count=local.memory.get("count", 0) + 1)), Memory()
    for _ in range(3):
        list(training(task, work_on(task, Job(whole=True), memory=memory)))
    assert memory == {"count": 3}


@pytest.mark.parametrize("how", ["to none", "new tensors", "flatten"])
def test_the_model_is_what_the_network_has_even_if_its_tensors_are_others(how: str) -> None:
    def replacing(local: LocalJob) -> None:
        for parameter in local.network.parameters():
            if how == "to none":
                parameter.grad = None
                parameter.data.fill_(3.0)
            elif how == "new tensors":
                parameter.data = torch.full_like(parameter, 3.0)
            else:
                parameter.data = torch.full_like(parameter, 3.0).t().contiguous().t()

    task = task_of(replacing)
    for _ in range(2):  # the second time from the same base
        assert list(training(task, work_on(task, Job(whole=True)))) != []
        assert task.model.vector.tolist() == [3.0] * task.size
    task.gradient(np.arange(4))
    assert float(task.model.gradient.abs().sum()) > 0


def test_the_network_is_in_training_mode_at_the_start_of_each_job() -> None:
    modes = []

    def evaluating(local: LocalJob) -> None:
        modes.append(local.network.training)
        local.network.eval()

    task = task_of(evaluating)
    for _ in range(2):
        list(training(task, work_on(task, Job(whole=True))))
    assert modes == [True, True]


# ---- what it must not do


def test_an_exception_is_reported_with_the_job_the_file_and_the_line() -> None:
    def failing(local: LocalJob) -> Iterator[float]:
        yield 1.0
        raise KeyError("weights")

    line = failing.__code__.co_firstlineno + 2
    assert problem_of(failing).startswith("job 4: ")
    assert problem_of(failing).endswith(f"test_own_training.py:{line}, in failing: KeyError: 'weights'")


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (lambda: threading.Thread(target=print).start(), "starts a thread"),
        (os.fork, "forks"),
        (lambda: subprocess.run(["true"], check=True), "starts a process"),
        (lambda: os.system("true"), "starts a process"),
        (lambda: list(DataLoader(torch.zeros(4), num_workers=2)), "forks"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_threads_and_processes_are_refused_at_their_line(start: Callable[[], object], what: str, whole: bool) -> None:
    def own(local: LocalJob) -> Iterator[float]:
        start()
        yield 1.0

    line = f"test_own_training.py:{start.__code__.co_firstlineno}" if hasattr(start, "__code__") else "in own"
    problem = problem_of((lambda local: start()) if whole else own, Job(whole=whole))
    assert line in problem or whole
    assert f": local training {what}; a device is one process with one thread: use num_workers=0" in problem


def test_after_a_job_threads_can_be_started() -> None:
    trained(descend)
    found: list[int] = []
    thread = threading.Thread(target=found.append, args=(1,))
    thread.start()
    thread.join()
    assert found == [1]


def test_a_job_that_seeds_torch_is_refused() -> None:
    def seeding(local: LocalJob) -> None:
        torch.manual_seed(0)

    assert "seeding seeds torch; leave that out: each job has a seed of its own" in problem_of(seeding, Job(whole=True))


def test_a_job_that_changes_the_threads_of_torch_is_refused_and_they_are_restored() -> None:
    before = torch.get_num_threads()
    problem = problem_of(lambda local: torch.set_num_threads(before + 3), Job(whole=True))
    assert f"changes torch.set_num_threads; a device computes with {before}" in problem
    assert torch.get_num_threads() == before


def test_a_step_that_does_not_end_is_interrupted_at_its_line() -> None:
    def endless(local: LocalJob) -> Iterator[float]:
        yield 1.0
        while True:
            local.rng.random()

    problem = problem_of(endless, Job(steps=3, patience=0.2))
    assert "in endless: a step of local training has not ended after 0.2 s of computing" in problem
    assert problem.endswith("if it needs longer, raise training.patience")


def test_training_that_continues_after_every_exception_is_interrupted_all_the_same() -> None:
    def stubborn(local: LocalJob) -> None:
        while True:
            try:
                while True:
                    local.rng.random()
            except Exception:  # noqa: BLE001
                continue

    assert "in stubborn: a step of local training has not ended after 0.2 s" in problem_of(
        stubborn, Job(patience=0.2, whole=True)
    )


def test_training_that_exits_is_reported_like_an_exception() -> None:
    problem = problem_of(lambda local: sys.exit(0), Job(whole=True))
    assert problem.startswith("job 4: ")
    assert problem.endswith("SystemExit: 0")


def test_other_threads_may_start_threads_and_processes_meanwhile() -> None:
    asked, done = threading.Event(), threading.Event()

    def start_others() -> None:
        asked.wait(60)
        threading.Thread(target=subprocess.run, args=(["true"],)).start()
        done.set()

    def waiting(local: LocalJob) -> None:
        asked.set()
        assert done.wait(60)

    thread = threading.Thread(target=start_others)
    thread.start()
    trained(waiting, Job(whole=True))
    thread.join()
    assert done.is_set()


def test_generators_of_the_user_continue_as_if_nothing_had_been_trained() -> None:
    def drawn() -> list[float]:
        return [torch.rand(1).item(), np.random.rand(), random.random()]

    with generators_restored():
        expected = drawn()
    with generators_restored():
        trained(descend)
    assert drawn() == expected


def test_in_another_thread_a_job_is_computed_without_interruption() -> None:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(trained(descend)[0]))
    thread.start()
    thread.join()
    assert found == [trained(descend)[0]]


@pytest.mark.parametrize(
    ("count", "problem"), [(3, "yielded 3 losses; the job has 5 steps"), (6, "more than 5 losses")]
)
def test_the_number_of_losses_is_that_of_the_steps(count: int, problem: str) -> None:
    def counting(local: LocalJob) -> Iterator[float]:
        yield from [1.0] * count

    assert problem in problem_of(counting)


def test_a_stepwise_job_must_yield() -> None:
    assert "returned instead of yielding the loss of each step" in problem_of(lambda local: 1.0)


@pytest.mark.parametrize("whole", [True, False])
def test_a_loss_must_be_a_number(whole: bool) -> None:
    def own(local: LocalJob) -> Iterator[object]:
        yield "1.0 or so"

    problem = problem_of((lambda local: [1.0]) if whole else own, Job(whole=whole))
    assert f"gave {'list' if whole else 'str'} as a loss; it must be a number" in problem


def test_a_model_with_numbers_that_are_not_finite_is_refused() -> None:
    def diverging(local: LocalJob) -> None:
        local.network.weight.data[1, 1] = float("nan")  # type: ignore[index, union-attr]

    problem = problem_of(diverging, Job(whole=True))
    assert "diverging made a model in which 1 of 6 numbers are not finite, the first one is number 3" in problem


@pytest.mark.parametrize(
    ("change", "given"),
    [
        (lambda network: network.double(), "weight is torch.float64 of shape (2, 2) after training"),
        (lambda network: setattr(network.weight, "data", torch.zeros(3)), "weight is torch.float32 of shape (3,)"),
    ],
)
def test_parameters_of_another_type_or_shape_are_refused_by_name(
    change: Callable[[nn.Module], object], given: str
) -> None:
    def own(local: LocalJob) -> None:
        change(local.network)

    problem = problem_of(own, Job(whole=True))
    assert f"own: {given}" in problem
    assert "it must be torch.float32 of shape (2, 2)" in problem
