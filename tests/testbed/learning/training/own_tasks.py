"""A small task with local training of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.training.local_job import LocalJob
from testbed.learning.training.network_task import NetworkTask
from testbed.learning.training.task import Memory, VectorJob
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job

SAMPLES, DEVICES = 60, 3


def task_of(own: Callable[[LocalJob], Any] | None, network: nn.Module | None = None, **changes: Any) -> NetworkTask:
    """Two clouds of points on three devices."""
    chance = np.random.default_rng(3)
    labels = np.arange(SAMPLES) % 2
    points = chance.normal(size=(SAMPLES, 2)).astype(np.float32) + 2 * labels[:, None].astype(np.float32)
    part = Subset(inputs=points, targets=labels.astype(np.uint8))
    shards = list(np.array_split(np.arange(SAMPLES), DEVICES))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        module = network or nn.Linear(2, 2)
    return NetworkTask(module=module, data=DataSet(train=part, test=part), shards=shards, own=own, **changes)


def work_on(
    task: NetworkTask, job: Job, *, base: Vector | None = None, number: int = 0, memory: Memory | None = None
) -> VectorJob:
    return VectorJob(
        base=task.initial() if base is None else base,
        job=job,
        device=1,
        number=number,
        samples=task.shards[1],
        rng=np.random.default_rng(number),
        memory={} if memory is None else memory,
    )


def descend(local: LocalJob) -> Any:
    """The default loop, written with the classes of torch."""
    optimizer = torch.optim.SGD(local.network.parameters(), lr=local.job.lr, foreach=False)
    for step, (inputs, targets) in enumerate(local.batches()):
        optimizer.param_groups[0]["lr"] = local.lr(step)
        optimizer.zero_grad()
        loss = local.loss(local.network(inputs), targets)
        loss.backward()
        optimizer.step()
        yield loss
