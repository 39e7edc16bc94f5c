"""Centralised baselines: every task and network trained on all of its data, without devices or strategies.

A wrong network, loss or data set cannot hide behind federation here. The same code trains as on a device, on all
cores. Data sets whose files are missing (EDGEBED_DATA, the cache) are skipped with a note. Takes 20 minutes;
``--quick``: only the embedded digits, the synthetic data, the regression and the SVM.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from devices.compute.job_steps import training
from testbed.common.parameters import build
from testbed.learning.data import folders
from testbed.learning.data.data_sources import SOURCES
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.setting import Setting
from testbed.learning.training.task import VectorJob
from testbed.wire.training_job import Job
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Aim, Figure, at_least, at_most
from tests.files import present


@dataclass(frozen=True, kw_only=True)
class Baseline:
    task: str
    model: str
    job: Job
    metric: str = "accuracy"
    at_least: float | None = None
    at_most: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def _sgd(lr: float, *, epochs: int = 0, steps: int = 1, batch: int = 32, momentum: float = 0.9) -> Job:
    return Job(epochs=epochs, steps=steps, batch=batch, lr=lr, momentum=momentum)


BASELINES = (
    Baseline(task="digits", model="small-cnn", job=_sgd(0.05, epochs=20), at_least=0.96),
    Baseline(task="synthetic", model="mlp", job=_sgd(0.01, epochs=60), at_least=0.8),
    Baseline(task="regression", model="linear", job=_sgd(0.002, epochs=20), metric="mse", at_most=0.05),
    Baseline(task="svm", model="linear", job=_sgd(0.002, epochs=20), at_least=0.98),
    Baseline(task="mnist", model="cnn", job=_sgd(0.02, epochs=3), at_least=0.98),
    Baseline(task="mnist", model="over-cnn", job=_sgd(0.02, epochs=1), at_least=0.98),
    Baseline(task="mnist", model="lenet5", job=_sgd(0.02, epochs=3), at_least=0.98),
    Baseline(task="mnist", model="eafl-cnn", job=_sgd(0.02, epochs=2), at_least=0.98),
    Baseline(task="fashion_mnist", model="cnn", job=_sgd(0.02, epochs=3), at_least=0.84),
    Baseline(task="cifar10", model="lenet", job=_sgd(0.01, epochs=8), at_least=0.5),
    Baseline(
        task="cifar10",
        model="vgg11",
        job=_sgd(0.01, steps=300, batch=64),
        at_least=0.35,
        parameters={"test_samples": 1000},
    ),
    Baseline(task="femnist", model="femnist-cnn", job=_sgd(0.02, epochs=5), at_least=0.7),
    Baseline(
        task="shakespeare",
        model="char-lstm",
        job=_sgd(1.0, steps=300, batch=64, momentum=0.5),
        metric="loss",
        at_most=3.0,
        parameters={"test_samples": 1000},
    ),  # 3.16 is the entropy of single characters: a lower loss needs their context
)

_QUICK = 4
"""Baselines whose data is embedded or generated: some seconds together."""


def measure(options: Options) -> Iterator[Figure]:
    torch.set_num_threads(os.cpu_count() or 1)
    os.environ[folders.OFFLINE] = "1"
    for baseline in BASELINES[:_QUICK] if options.quick else BASELINES:
        yield from _trained(baseline)


def _trained(baseline: Baseline) -> Iterator[Figure]:
    row, metric = _row(baseline), baseline.metric
    recipe = build(TASKS[baseline.task], {"model": baseline.model, "split": "iid", **baseline.parameters}, "central")
    if baseline.task in SOURCES and not present(baseline.task):
        yield Figure(row=row, column=metric, value=None, aim=_aim(baseline), note="its files are missing")
        return
    task = recipe.open(Setting(devices=1, data_seed=1, model_seed=1))
    before, began = task.evaluate(task.initial()), time.perf_counter()
    rng, shard = np.random.default_rng(1), task.shards[0]
    work = VectorJob(base=task.initial(), job=baseline.job, device=0, number=0, samples=shard, rng=rng, memory={})
    for _ in training(task, work):
        pass
    seconds, after = time.perf_counter() - began, task.evaluate(task.model.vector.numpy().copy())
    yield Figure(row=row, column=metric, value=after[metric], aim=_aim(baseline))
    yield Figure(row=row, column="before", value=before[metric])
    yield Figure(row=row, column="time", value=seconds, unit="s")


def _row(baseline: Baseline) -> str:
    job = baseline.job
    length = f"{job.epochs} epochs" if job.epochs else f"{job.steps} steps"
    return f"{baseline.task}, {baseline.model}: {length} of {job.batch}"


def _aim(baseline: Baseline) -> Aim | None:
    if baseline.at_least is not None:
        return at_least(baseline.at_least)
    return None if baseline.at_most is None else at_most(baseline.at_most)
