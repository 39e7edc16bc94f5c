"""The template: the process that all others are forked from. It imports everything, loads the data and trains a step.

This module is the preload of the standard library's forkserver. The launcher writes the request into a file that an
environment variable names, the only channel to a preload. A fork then costs milliseconds and a few megabytes, where a
fresh interpreter would repeat seconds of imports.

The process must never have a second thread (a forked thread pool blocks forever) or a ZeroMQ context. At the end of
its preparation it writes a file with the survey, or with the problem: the forkserver would hide an ImportError.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from aggregator.strategies import STRATEGIES
from testbed.common.clock import WallClock
from testbed.common.errors import UserError
from testbed.common.plugins import IN_A_RUN
from testbed.common.signals import STOP_SIGNALS
from testbed.host import calibration, huge_pages, unique_memory
from testbed.host.cores import die_with_parent
from testbed.host.kernel import governor, pressure_seconds
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.learning.tasks.setting import Setting
from testbed.traces import availability, rate
from testbed.wire.training_job import Job

if TYPE_CHECKING:
    import numpy.typing as npt

    from testbed.learning.tasks.task import Task

ENVIRONMENT = "EDGEBED_TEMPLATE"
REQUEST = "template.json"
READY = "template.ready"
_LAUNCHER_DIED = signal.SIGUSR1

_CLEAN_UP_ATTEMPTS = 100
"""The aggregator outlives the launcher for a moment, and may write its status into the folder during its removal."""

_MANY_DEVICES = 100
"""Collapsing the template into huge pages takes as long as some dozens of forks, and makes each five times faster."""

_PIECE_SAMPLES = 512
"""A larger step goes through the network in pieces (``testbed.learning.tasks.task``) and needs no more memory."""

PID = os.getpid()
TASK: Task | None = None


class TemplateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the template prepares and measures."""

    launcher: int
    source: str
    task: str
    parameters: dict[str, Any]
    """The parameters of the task, as the profile has them. Only the task knows their types: it may be a user's own."""
    devices: int
    data_seed: int
    model_seed: int
    job: Job
    crowd: dict[int, int]
    """Core → processes that time local steps on it; empty if no device is throttled."""
    flops: bool
    rates: tuple[str, ...] = ()
    availability: tuple[str, ...] = ()
    """Trace files of links and of devices. All forked processes share what the template has read."""
    strategy: str
    """The strategy whose slow imports are done here, once; empty if it has none."""


class TemplateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A survey; or a problem, with a traceback in ``details`` if the user cannot fix it."""

    survey: Survey | None = None
    problem: str = ""
    details: str = ""


def _prepare(request: TemplateRequest) -> Task:
    import torch

    from testbed.processes import roles  # noqa: F401  the forked processes need them

    if request.strategy:
        STRATEGIES.find(request.strategy, request.source, "strategy").preload()
    for path in request.rates:
        rate.load(path)
    for path in request.availability:
        availability.load(path)
    torch.set_num_threads(1)
    setting = Setting(devices=request.devices, data_seed=request.data_seed, model_seed=request.model_seed)
    with setup.as_profile_errors(request.source):
        task = setup.recipe(request.task, request.parameters, request.source).open(setting)
    # torch imports and allocates lazily: a full step here makes the first step of each device fast
    job = Job(steps=1, batch=32, momentum=0.5, proximal=0.1)
    for _ in _local_sgd(task, task.shards[0], job):
        pass
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the template has {threads} threads; only a process with one thread can be forked safely")
    return task


def _count_flops(task: Task, folder: Path) -> tuple[int, int]:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)  # counting imports Inductor, which makes this folder
    return task.flops()


def _survey(task: Task, request: TemplateRequest, pressure: float | None, folder: Path) -> Survey:
    clock = WallClock.starting_now()
    metrics = task.evaluate(task.initial())
    evaluation = clock.now()
    forward, training = 0, 0
    if request.flops:
        counted: Any = calibration.in_child(lambda: _count_flops(task, folder))
        if counted is None:
            raise RuntimeError("counting the FLOPs of the network failed")
        if not all(counted):
            raise UserError(
                f"{request.source}: torch counts no FLOPs for the network of task {request.task!r};"
                " give seconds_per_sample for its devices"
            )
        forward, training = counted

    def steps(batch: int) -> Iterator[float]:
        everything = np.arange(task.training_samples, dtype=np.int64)
        return _local_sgd(task, everything, replace(request.job, steps=1_000_000, epochs=0, batch=batch))

    largest = request.job.largest_step(len(shard) for shard in task.shards)
    return Survey(
        parameters=task.size,
        samples=tuple(len(shard) for shard in task.shards),
        flops_forward=forward,
        flops_training=training,
        steps=calibration.measure(steps, largest, request.crowd) if request.crowd else (),
        evaluation_seconds=evaluation,
        metrics=tuple(metrics),
        crowd=request.crowd,
        device_bytes=unique_memory.measure(steps, min(largest, _PIECE_SAMPLES)),
        governor=governor(),
        pressure=pressure,
    )


def _local_sgd(task: Task, shard: npt.NDArray[np.int64], job: Job) -> Iterator[float]:
    from devices.compute.local_sgd import local_sgd

    return local_sgd(task, shard, job, task.initial(), np.random.default_rng(0))


def _clean_up(folder: Path) -> None:
    """Remove the private folder with its sockets if the launcher has died and could not.

    The parent's pid does not show that: a launcher with several threads is still the parent when its first thread has
    died and its files are closed. The request file does: a launcher that cleans up removes it first.
    """
    if os.getpid() != PID:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {_LAUNCHER_DIED})  # or a second signal would interrupt this
    if (folder / REQUEST).exists():
        for _ in range(_CLEAN_UP_ATTEMPTS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                return


def _main(folder: Path) -> None:
    global TASK
    for number in STOP_SIGNALS:  # terminals and batch systems signal the whole group; children inherit this
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    # a program that a task starts must not take itself for the template, if it imports this module, too
    del os.environ[ENVIRONMENT]
    os.environ[IN_A_RUN] = "1"
    request = msgspec.json.decode((folder / REQUEST).read_bytes(), type=TemplateRequest)

    def end(*_: object) -> None:
        _clean_up(folder)
        os._exit(1)

    signal.signal(_LAUNCHER_DIED, end)
    atexit.register(_clean_up, folder)
    if os.getppid() != request.launcher:
        _clean_up(folder)  # the launcher died while this interpreter started
    die_with_parent(request.launcher, _LAUNCHER_DIED)
    clock, before = WallClock.starting_now(), pressure_seconds()
    try:
        TASK = _prepare(request)
        after = pressure_seconds()
        pressure = None if before is None or after is None else (after - before) / clock.now()
        answer = TemplateAnswer(survey=_survey(TASK, request, pressure, folder))
    except UserError as error:
        answer = TemplateAnswer(problem=str(error))
    except Exception as error:  # noqa: BLE001  no other process could report it
        answer = TemplateAnswer(problem=f"{type(error).__name__}: {error}", details=traceback.format_exc())
    gc.collect()
    gc.freeze()  # no later collection touches these pages, so they stay shared
    if request.devices >= _MANY_DEVICES:
        huge_pages.collapse()
    draft = folder / f"{READY}.new"
    draft.write_bytes(msgspec.json.encode(answer))
    os.replace(draft, folder / READY)


if ENVIRONMENT in os.environ:
    _main(Path(os.environ[ENVIRONMENT]))
