"""Networks with batch normalisation as tasks: jobs, scores, and batches of a single sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from devices.compute.job_steps import steps_of_job
from devices.compute.kept_memory import JobTickets, KeptMemory
from devices.compute.trainer import Stepwise, complete
from testbed.common.errors import UserError
from testbed.learning.data.dataset import DataSet, Indices, Subset
from testbed.learning.models import flops
from testbed.learning.training.local_job import LocalJob, drawn_batches
from testbed.learning.training.network_task import NetworkTask
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

JOB = Job(steps=3, batch=5, lr=0.1)


def data_of(samples: int = 40, *, is_sorted: bool = False) -> DataSet:
    """Four features, three classes; the features of a class have their own mean."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, samples).astype(np.uint8)
    if is_sorted:
        labels.sort()
    inputs = (rng.normal(size=(samples, 4)) + 2.0 * labels[:, None]).astype(np.float32)
    part = Subset(inputs=inputs, targets=labels)
    return DataSet(train=part, test=part)


def network_of(**options: float | None) -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, **options), nn.ReLU(), nn.Linear(6, 3))  # type: ignore[arg-type]


def task_of(
    *,
    local: bool = False,
    module: nn.Module | None = None,
    shards: list[Indices] | None = None,
    data: DataSet | None = None,
    test: Indices | None = None,
) -> NetworkTask:
    shards = [np.arange(20), np.arange(20, 40)] if shards is None else shards
    module = network_of() if module is None else module
    return NetworkTask(module=module, data=data or data_of(), shards=shards, test=test, local_buffers=local)


def delta_of(
    task: NetworkTask, device: int, number: int, base: Vector, kept: KeptMemory, arrived: int = 0, job: Job = JOB
) -> Vector:
    """Return the update of a job. Its ticket is one more than its number."""
    steps = steps_of_job(task, 1, device, job, base, number, JobTickets(number + 1, arrived), kept)
    return complete(Stepwise(steps), job.steps_over(len(task.shards[device])))[0]


# ---- jobs


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("local", [False, True])
def test_jobs_of_two_devices_are_computed_again_exactly_by_one_network(local: bool, momentum: float | None) -> None:
    """As ``verify`` does: it computes the jobs of all devices with one network, in another order."""

    def jobs(order: list[tuple[int, int]], tasks: list[NetworkTask]) -> dict[tuple[int, int], Vector]:
        kept = [KeptMemory(), KeptMemory()]
        return {
            (device, number): delta_of(tasks[device], device, number, base, kept[device], arrived=number)
            for device, number in order
        }

    def task() -> NetworkTask:
        return task_of(local=local, module=network_of(momentum=momentum))

    base = task().initial()
    one = task()
    apart = jobs([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)], [task(), task()])
    again = jobs([(1, 0), (0, 0), (0, 1), (1, 1), (0, 2)], [one, one])
    assert all(np.array_equal(apart[job], again[job]) for job in apart)
    assert one.evaluate(base) == task().evaluate(base)


def test_a_counter_is_kept_only_from_a_job_whose_update_arrived() -> None:
    task, kept = task_of(module=network_of(momentum=None)), KeptMemory()
    base = task.initial()
    first = delta_of(task, 0, 0, base, kept)
    lost = delta_of(task, 0, 1, base, KeptMemory())
    after = delta_of(task, 0, 1, base, kept, arrived=1)
    repeated = delta_of(task, 0, 1, base, KeptMemory(), arrived=1)  # a new process has kept nothing
    assert not np.array_equal(after, lost)
    assert np.array_equal(repeated, lost)
    assert first.shape == base.shape


def test_with_local_buffers_updates_have_parameters_only_and_the_statistics_go_on() -> None:
    task, kept = task_of(local=True), KeptMemory()
    base = task.initial()
    assert base.size == sum(parameter.numel() for parameter in network_of().parameters())
    delta_of(task, 0, 0, base, kept)
    memory = kept.begin(JobTickets(2, 1))["buffers of the network"]
    plain = network_of()
    for samples in first_batches(task, 3):
        plain.zero_grad()
        inputs, targets = task._batch(task._data.train, samples)
        nn.functional.cross_entropy(plain(inputs), targets).backward()
        with torch.no_grad():
            for parameter in plain.parameters():
                assert parameter.grad is not None
                parameter -= JOB.lr * parameter.grad
    torch.testing.assert_close(memory["1.running_mean"], plain[1].running_mean)
    torch.testing.assert_close(memory["1.running_var"], plain[1].running_var)
    assert memory["1.num_batches_tracked"] == 3


def first_batches(task: NetworkTask, count: int) -> list[Indices]:
    """Return the batches of the first job of device 0: ``local_sgd`` draws torch's seed first."""
    rng = np.random.default_rng([1, 2, 0, 0])
    rng.integers(2**63)
    drawn = drawn_batches(task.shards[0], JOB, rng)
    return [next(drawn) for _ in range(count)]


def test_an_abandoned_job_leaves_nothing_to_the_next() -> None:
    task, base = task_of(), task_of().initial()
    expected = delta_of(task_of(), 0, 0, base, KeptMemory())
    steps = Stepwise(steps_of_job(task, 1, 1, JOB, base, 0, JobTickets(1, 0), KeptMemory()))
    steps.step()
    steps.close()
    assert np.array_equal(delta_of(task, 0, 0, base, KeptMemory()), expected)


def test_a_job_on_a_model_with_negative_variances_ends_with_variances() -> None:
    task = task_of()
    base = task.initial()
    base[-6:] = -0.5
    assert (base + delta_of(task, 0, 0, base, KeptMemory()))[-6:].min() >= 0
    assert np.isfinite(task.evaluate(base)["loss"])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_weight_decay_does_not_change_parameters_that_need_no_gradient(optimizer: str) -> None:
    network = network_of()
    network[0].weight.requires_grad_(False)
    job = replace(JOB, optimizer=optimizer, weight_decay=0.1)
    delta = delta_of(task := task_of(module=network), 0, 0, task.initial(), KeptMemory(), job=job)
    named = task.tensors(delta)
    assert not named["0.weight"].any()
    assert named["0.bias"].any()
    assert named["1.running_mean"].any()


class Remembering(nn.Module):
    """A layer of a user that replaces its buffer instead of changing it."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * inputs.detach().mean(dim=0)
        return self.factor * (inputs - self.mean)


def test_a_buffer_that_a_layer_replaces_is_part_of_the_update() -> None:
    task = task_of(module=nn.Sequential(nn.Linear(4, 3), Remembering()))
    assert task.least_batch == 1
    assert task.tensors(delta_of(task, 0, 0, task.initial(), KeptMemory()))["1.mean"].any()


# ---- scores


def test_the_mean_model_is_scored_with_its_mean_statistics_as_in_torch() -> None:
    task, base = task_of(), task_of().initial()
    mean = base + (delta_of(task, 0, 0, base, KeptMemory()) + delta_of(task, 1, 0, base, KeptMemory())) / 2
    network = network_of().eval()
    network.load_state_dict({name: torch.from_numpy(part) for name, part in task.tensors(mean).items()}, strict=False)
    inputs, targets = task._batch(task._data.test, np.arange(40))
    with torch.no_grad():
        expected = float(nn.functional.cross_entropy(network(inputs), targets))
    assert task.evaluate(mean)["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_with_local_buffers_test_samples_are_normalised_by_their_own_statistics(momentum: float | None) -> None:
    task = task_of(local=True, module=network_of(momentum=momentum))
    plain = network_of()
    inputs, targets = task._batch(task._data.test, np.arange(40))
    expected = float(nn.functional.cross_entropy(plain.train()(inputs), targets).detach())
    assert task.evaluate(task.initial())["loss"] == pytest.approx(expected, rel=1e-5)
    assert task.model.module[1].momentum == momentum  # type: ignore[index]
    assert task.model.module[1].running_mean.tolist() == [0.0] * 6  # type: ignore[index]


def test_with_local_buffers_the_order_of_the_test_samples_hardly_matters() -> None:
    """In order of the classes, pieces of 512 samples would have the statistics of one class each."""
    scores = [
        task_of(local=True, data=data_of(1536, is_sorted=is_sorted)).evaluate(task_of(local=True).initial())["loss"]
        for is_sorted in (True, False)
    ]
    assert scores[0] == pytest.approx(scores[1], rel=0.05)


def test_frozen_layers_are_scored_with_their_own_statistics_even_if_buffers_are_local() -> None:
    network = network_of()
    network[1].eval()
    task = task_of(local=True, module=network)
    inputs, targets = task._batch(task._data.test, np.arange(40))
    expected = float(nn.functional.cross_entropy(network_of().eval()(inputs), targets).detach())
    assert task.evaluate(task.initial())["loss"] == pytest.approx(expected, rel=1e-5)
    assert not task.model.module[1].training  # type: ignore[index]


# ---- a single sample


def test_the_last_batch_of_an_epoch_has_a_second_sample_if_the_network_needs_one() -> None:
    samples, job = np.arange(11), Job(batch=5)
    drawn = drawn_batches(samples, job, np.random.default_rng(1), least=2)
    first, second, last = (next(drawn) for _ in range(3))
    assert sorted([*first, *second, last[1]]) == list(range(11))
    assert last[0] == second[-1]
    plain = drawn_batches(samples, job, np.random.default_rng(1))
    assert [len(next(plain)) for _ in range(3)] == [5, 5, 1]


def test_an_epoch_that_leaves_one_sample_is_trained_with_batch_normalisation() -> None:
    task = task_of(shards=[np.arange(11), np.arange(20)])
    assert task.least_batch == 2
    job = Job(epochs=2, batch=5, lr=0.1)
    task.check(job)
    assert np.isfinite(delta_of(task, 0, 0, task.initial(), KeptMemory(), job=job)).all()


def test_batches_of_a_users_own_training_have_a_second_sample_too() -> None:
    losses: list[int] = []

    def own(local: LocalJob) -> None:
        losses.extend(len(inputs) for inputs, _ in local.batches())

    task = NetworkTask(module=network_of(), data=data_of(), shards=[np.arange(11)], own=own)
    job = Job(epochs=1, batch=5, whole=True)
    delta_of(task, 0, 0, task.initial(), KeptMemory(), job=job)
    assert losses == [5, 5, 2]


def test_the_memory_of_a_users_own_training_and_the_buffers_of_its_network_do_not_mix() -> None:
    seen: list[dict[str, object]] = []

    def own(local: LocalJob) -> None:
        seen.append(dict(local.memory))
        local.memory["buffers"] = local.number
        for inputs, _ in local.batches():
            local.network(inputs)

    task = NetworkTask(module=network_of(), data=data_of(), shards=[np.arange(20)], own=own, local_buffers=True)
    job, kept = Job(epochs=1, batch=5, whole=True), KeptMemory()
    for number in range(2):
        delta_of(task, 0, number, task.initial(), kept, arrived=number, job=job)
    assert seen == [{}, {"buffers": 0}]
    memory = kept.begin(JobTickets(3, 2))
    assert memory["buffers"] == 1
    assert memory["buffers of the network"]["1.num_batches_tracked"] == 8


def test_images_may_be_alone_because_each_channel_has_many_values() -> None:
    module = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 3))
    task = task_of(module=module, shards=[np.arange(1), np.arange(1, 40)])
    assert task.least_batch == 1
    task.check(Job(batch=1))
    assert np.isfinite(delta_of(task, 0, 0, task.initial(), KeptMemory())).all()


def test_looking_for_the_smallest_batch_changes_neither_statistics_nor_torchs_generator() -> None:
    module = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(4, 3))
    before = torch.get_rng_state()
    task = task_of(module=module)
    assert torch.equal(torch.get_rng_state(), before)
    assert task.model.module[1].running_mean.tolist() == [0.0]  # type: ignore[index]
    assert task.model.kept()["1.num_batches_tracked"] == 0


@pytest.mark.parametrize(("alone", "words"), [(1, "device 2 of the fleet has"), (2, "2 devices have")])
def test_devices_with_one_sample_are_refused_with_a_remedy(alone: int, words: str) -> None:
    shards = [np.arange(4), *(np.arange(4 + n, 5 + n) for n in range(alone))]
    with pytest.raises(UserError, match=rf"{words} one training sample, and batch normalisation.*least = 2"):
        task_of(shards=shards).check(JOB)


def test_batches_of_one_sample_are_refused_with_a_remedy() -> None:
    with pytest.raises(UserError, match=r"training\.batch is 1, and batch normalisation needs two samples.*set it hi"):
        task_of().check(Job(batch=1))


def test_a_single_test_sample_is_refused_if_buffers_are_local() -> None:
    one = np.arange(1)
    task_of(test=one).check(JOB)
    with pytest.raises(UserError, match=r"there is one test sample, and with task\.buffers = 'local'"):
        task_of(test=one, local=True).check(JOB)


def test_a_batch_of_513_samples_is_not_cut_into_512_and_one() -> None:
    task = task_of(data=data_of(513), shards=[np.arange(513)])
    task.model.load(task.initial())
    assert np.isfinite(task.gradient(np.arange(513)))
    assert np.isfinite(task.evaluate(task.initial())["loss"])


def test_flops_of_a_network_that_needs_two_samples_are_those_of_one() -> None:
    task = task_of()
    linear = [layer for layer in network_of() if isinstance(layer, nn.Linear)]
    assert task.flops()[0] == sum(2 * layer.weight.numel() for layer in linear)
    assert task.flops() == flops.per_sample(network_of().eval(), torch.zeros(1, 4))
    assert task.model.module.training
