"""The steps of a job: by the optimiser of the profile, or by the task's own training."""

from __future__ import annotations

import numpy as np

from devices.compute.kept_memory import JobTickets, KeptMemory
from devices.compute.local_sgd import local_sgd
from devices.compute.trainer import Steps
from testbed.common.finders.user_code import in_one_line
from testbed.learning.training.network_task import NetworkTask
from testbed.learning.training.own_training import OwnTrainingError, check_result
from testbed.learning.training.task import Task, VectorJob
from testbed.wire.messages import Vector
from testbed.wire.training_job import Job


def steps_of_job(
    task: Task,
    seed: int,
    device: int,
    job: Job,
    base: Vector,
    number: int,
    tickets: JobTickets,
    kept: KeptMemory,
) -> Steps:
    """Train job ``number`` of the device with this index. Yields the loss of each step, and returns the delta.

    Batches are drawn by the number of the job, so that a job that is repeated or recomputed has the same ones.
    """
    work = VectorJob(
        base=base,
        job=job,
        device=device,
        number=number,
        samples=task.shards[device],
        rng=np.random.default_rng([seed, 2, device, number]),
        memory=kept.begin(tickets),
    )
    model = yield from training(task, work)
    kept.leave(tickets, work.memory)
    delta: Vector = np.subtract(model, base)
    return delta


def training(task: Task, work: VectorJob) -> Steps:
    """Train. Yields the loss of each step, and returns the new model, which may change with the next job.

    Raises OwnTrainingError with the number of the job, if the task trains itself and fails.
    """
    if not task.trains_itself:
        assert isinstance(task, NetworkTask)
        return (yield from local_sgd(task, work))
    try:
        model = yield from task.train(work)
        check_result(model, task.size, task.place)
    except GeneratorExit:
        raise
    except (Exception, SystemExit) as error:
        text = in_one_line(error, with_type=not isinstance(error, OwnTrainingError))
        raise OwnTrainingError(f"job {work.number}: {text}") from error
    return model
