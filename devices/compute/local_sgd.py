"""Local training as a generator of steps, so that it can be paced, suspended and abandoned between any two steps."""

from __future__ import annotations

from collections.abc import Generator

import torch

from devices.compute import optimizers
from testbed.learning.training.local_job import drawn_batches
from testbed.learning.training.network_task import NetworkTask
from testbed.learning.training.task import VectorJob
from testbed.wire.messages import Vector


def local_sgd(task: NetworkTask, work: VectorJob) -> Generator[float, None, Vector]:
    """Train the network of a task by the optimiser of the job. Yields the loss of each step, and returns the model."""
    job, samples = work.job, work.samples
    torch.default_generator.manual_seed(int(work.rng.integers(2**63)))  # for dropout: seeded like the batches
    model = task.model
    task.load(work)
    start = model.weights.clone() if job.proximal else None
    change = optimizers.optimizer_of(job, work.memory)
    batches = drawn_batches(samples, job, work.rng, task.least_batch)
    losses = 0.0
    count = job.batches_over(len(samples))
    for step in range(count):
        loss = task.gradient(next(batches))
        gradient = model.gradient
        if start is not None:
            gradient.add_(model.weights - start, alpha=job.proximal)
        if job.clip_gradient:
            optimizers.clip(gradient, job.clip_gradient)
        change(model.weights, gradient, job.lr_at(step, len(samples), work.number))
        losses += loss
        if not job.whole:
            yield loss
    if job.whole:
        yield losses / count
    return task.trained(work)
