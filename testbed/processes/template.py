"""The process that all others are forked from: everything imported, data loaded, one full training step done.

The launcher names this module to the standard library's forkserver as its preload, and says what to prepare in a
file that the environment points at — the only channel a preload has. A fork then costs milliseconds and a few
megabytes, where a fresh interpreter would repeat seconds of imports.

Rules of this process: one thread, ever (a forked thread pool hangs), and no ZeroMQ context. It ends its preparation
with a file that holds what it found out, or what went wrong: the forkserver swallows an ImportError.
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
from testbed.common.signals import STOP_SIGNALS
from testbed.host import calibration
from testbed.host.cores import die_with_parent
from testbed.host.kernel import governor, pressure_seconds
from testbed.host.survey import Survey
from testbed.learning import setup
from testbed.learning.tasks.setting import Setting
from testbed.traces import availability, rate
from testbed.wire.messages import Job

if TYPE_CHECKING:
    import numpy.typing as npt

    from testbed.learning.tasks.task import Task

ENVIRONMENT = "EDGEBED_TEMPLATE"
REQUEST = "template.json"
READY = "template.ready"
_LAUNCHER_DIED = signal.SIGUSR1

_CLEAN_UP_ATTEMPTS = 100
"""The aggregator lives a moment longer than the launcher, and may write its status into a folder being removed."""

PID = os.getpid()
TASK: Task | None = None


class TemplateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the launcher wants prepared and found out."""

    launcher: int
    source: str
    task: str
    parameters: dict[str, Any]
    devices: int
    data_seed: int
    model_seed: int
    job: Job
    crowd: dict[int, int]
    """Cores and processes to time local steps with; empty where nobody asks what a step costs."""
    flops: bool
    rates: tuple[str, ...] = ()
    availability: tuple[str, ...] = ()
    """Trace files of links and of devices. Read here once, they are shared by all that are forked."""
    strategy: str
    """Its slow imports are done here, once."""


class TemplateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A survey; or a ``problem`` for the user, with ``details`` if it is none that a user can mend."""

    survey: Survey | None = None
    problem: str = ""
    details: str = ""


def _prepare(order: TemplateRequest) -> Task:
    import torch

    from testbed.processes import roles  # noqa: F401  what is forked needs them

    STRATEGIES.find(order.strategy, order.source, "strategy").preload()

    for path in order.rates:
        rate.load(path)
    for path in order.availability:
        availability.load(path)
    torch.set_num_threads(1)
    setting = Setting(devices=order.devices, data_seed=order.data_seed, model_seed=order.model_seed)
    with setup.blamed_on(order.source):
        task = setup.recipe(order.task, order.parameters, order.source).open(setting)
    # torch imports and allocates lazily: one full step here is one full step less in every device
    job = Job(steps=1, batch=32, momentum=0.5, proximal=0.1)
    for _ in _local_sgd(task, task.shards[0], job):
        pass
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the template has {threads} threads; only a single-threaded process can be forked safely")
    return task


def _count_flops(task: Task, folder: Path) -> tuple[int, int]:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)  # counting imports it, and the import makes a folder somewhere
    return task.flops()


def _survey(task: Task, order: TemplateRequest, pressure: float | None, folder: Path) -> Survey:
    clock = WallClock.starting_now()
    metrics = task.evaluate(task.initial())
    evaluation = clock.now()
    forward, training = 0, 0
    if order.flops:
        counted: Any = calibration.in_child(lambda: _count_flops(task, folder))
        if counted is None:
            raise RuntimeError("counting the FLOPs of the network failed")
        if not all(counted):
            raise UserError(
                f"{order.source}: torch counts no FLOPs for the network of task {order.task!r};"
                " give seconds_per_sample for its devices"
            )
        forward, training = counted

    def steps(batch: int) -> Iterator[float]:
        everything = np.arange(task.training_samples, dtype=np.int64)
        return _local_sgd(task, everything, replace(order.job, steps=1_000_000, epochs=0, batch=batch))

    largest = order.job.largest_step(len(shard) for shard in task.shards)
    return Survey(
        parameters=task.size,
        samples=tuple(len(shard) for shard in task.shards),
        flops_forward=forward,
        flops_training=training,
        steps=calibration.measure(steps, largest, order.crowd) if order.crowd else (),
        evaluation_seconds=evaluation,
        metrics=tuple(metrics),
        crowd=order.crowd,
        governor=governor(),
        pressure=pressure,
    )


def _local_sgd(task: Task, shard: npt.NDArray[np.int64], job: Job) -> Iterator[float]:
    from devices.compute.local_sgd import local_sgd

    return local_sgd(task, shard, job, task.initial(), np.random.default_rng(0))


def _clean_up(folder: Path) -> None:
    """If the launcher has died it could not clean up: its sockets must not stay behind.

    Its pid tells nothing: a launcher with several threads is still our parent when its first thread has died and its
    files are closed. What tells is the order, which a launcher that cleans up itself withdraws first.
    """
    if os.getpid() != PID:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {_LAUNCHER_DIED})  # or the second news of a death would cut this short
    if (folder / REQUEST).exists():
        for _ in range(_CLEAN_UP_ATTEMPTS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                return


def _main(folder: Path) -> None:
    global TASK
    for number in STOP_SIGNALS:  # a terminal or a batch system sends them to the whole group; children inherit this
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    order = msgspec.json.decode((folder / REQUEST).read_bytes(), type=TemplateRequest)

    def end(*_: object) -> None:
        _clean_up(folder)
        os._exit(1)

    signal.signal(_LAUNCHER_DIED, end)
    atexit.register(_clean_up, folder)
    if os.getppid() != order.launcher:
        _clean_up(folder)  # it died while this interpreter started
    die_with_parent(order.launcher, _LAUNCHER_DIED)
    clock, pressed = WallClock.starting_now(), pressure_seconds()
    try:
        TASK = _prepare(order)
        waited = pressure_seconds()
        pressure = None if pressed is None or waited is None else (waited - pressed) / clock.now()
        answer = TemplateAnswer(survey=_survey(TASK, order, pressure, folder))
    except UserError as error:
        answer = TemplateAnswer(problem=str(error))
    except Exception as error:  # noqa: BLE001  nobody else could tell the user
        answer = TemplateAnswer(problem=f"{type(error).__name__}: {error}", details=traceback.format_exc())
    gc.collect()
    gc.freeze()  # what is shared now stays shared: no later collection touches its pages
    draft = folder / f"{READY}.new"
    draft.write_bytes(msgspec.json.encode(answer))
    os.replace(draft, folder / READY)


if ENVIRONMENT in os.environ:
    _main(Path(os.environ[ENVIRONMENT]))
