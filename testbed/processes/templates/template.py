"""What a warm template does before processes are forked from it: it loads the task, trains a step and makes the survey.

It has imported everything already (``root_template`` says which process does what). A fork then costs milliseconds and
a few megabytes, where a fresh interpreter would repeat seconds of imports. The process must never have a second thread
(a forked thread pool blocks forever) or a ZeroMQ context.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aggregator.strategies import STRATEGIES
from testbed.common.by_value import object_name
from testbed.common.clock import WallClock
from testbed.common.errors import ProfileError, RunFailed, UserError
from testbed.common.files.opened_files import FileMarks, OpenedFiles
from testbed.common.finders.user_code import in_one_line
from testbed.common.parameters import ParameterError
from testbed.host import calibration, survey_memory
from testbed.host.calibration import PressureMeter
from testbed.host.kernel import governor
from testbed.host.memory import huge_pages, unique_memory
from testbed.host.surroundings import Surroundings
from testbed.host.survey import Survey
from testbed.host.survey_memory import SurveyTimes
from testbed.learning import setup
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.setting import Setting
from testbed.traces import availability, rate
from testbed.wire.training_job import Job

if TYPE_CHECKING:
    from testbed.learning.training.task import Task

_MANY_DEVICES = 100
"""Collapsing the template into huge pages takes as long as some dozens of forks, and makes each five times faster."""

_CHECKS = 2
"""A remembered survey that a few steps contradict is checked once more: the end of an earlier run may disturb one
check for 40 ms, and a new survey takes a second."""
_FIRST_SAMPLES = 32
"""Samples of the first step, which makes torch load and allocate what the processes then share."""
_PIECE_SAMPLES = 512
"""A larger step goes through the network in pieces (``testbed.learning.training.task``) and needs no more memory."""

TASK: Task | None = None
"""The task of a warm template; all processes that are forked from it have it."""


class TemplateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the template prepares and measures."""

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
    remembered: bool = True
    """Whether times of an earlier survey may be used; then a few steps are timed to confirm them."""
    objects: dict[str, str] = {}
    """``task`` or ``strategy`` → digest of the object that it is. A descriptor for each comes with the request."""
    data_state: str = ""
    """Of the files of a user's own data."""
    strategy: str
    """The strategy whose slow imports are done here, once; empty if it has none."""


class TemplateAnswer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A survey; or a problem, with a traceback in ``details`` if the user cannot fix it."""

    survey: Survey | None = None
    problem: str = ""
    details: str = ""


class Prepare(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of a launcher: the request of a run.

    Descriptors: its standard output and standard error, the objects of the request, and the lock of its private folder
    if there is one.
    """

    request: TemplateRequest
    surroundings: Surroundings
    private: bytes
    """The private folder, which the root template removes if the launcher dies. The run's processes hold its lock."""

    def task_key(self) -> bytes:
        """Equal for two runs that may be forked from one warm template."""
        asked = self.request
        task = (asked.task, asked.parameters, asked.devices, asked.data_seed, asked.model_seed)
        files_and_objects = (asked.data_state, asked.objects)
        return msgspec.msgpack.encode((task, files_and_objects, self.surroundings))


class OpenTemplates(msgspec.Struct, frozen=True, kw_only=True):
    """The second message of a launcher. Descriptors: one socket for each run template."""

    log: bytes
    """The file for what run templates write, and their processes before these have opened logs of their own."""


class TemplatesOpened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pids: tuple[int, ...] = ()
    problem: str = ""


ToLauncher = TemplateAnswer | TemplatesOpened


def import_everything() -> None:
    """Import what the processes of a run need, and torch first of all."""
    import torch

    from testbed.processes.templates import child, roles  # noqa: F401  the forked processes need them

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # no later collection touches these pages, so they stay shared


def answer(request: TemplateRequest, folder: Path, files: OpenedFiles, objects: Sequence[int] = ()) -> TemplateAnswer:
    """Load the task, unless it is loaded, and what else the request names; make the survey.

    ``files`` notes what is read of the user; ``objects``: descriptors of the objects of the request.
    """
    global TASK
    try:
        with files.noted():
            is_new = TASK is None
            if TASK is None:
                _receive(request, objects)
                TASK = _load_task(request)
            _check_job(TASK, request)  # that of an earlier run may have been another one
            if is_new:
                _warm_up(TASK, request.job)
            _load_others(request)
        _check_threads()
        found = TemplateAnswer(survey=_survey(TASK, request, folder, files.marks()))
    except UserError as error:
        found = TemplateAnswer(problem=str(error))
    except Exception as error:  # noqa: BLE001  no other process could report it
        line = in_one_line(error, with_type=not isinstance(error, RunFailed))
        found = TemplateAnswer(problem=line, details=traceback.format_exc())
    gc.collect()
    gc.freeze()
    if request.devices >= _MANY_DEVICES:
        huge_pages.collapse()
    return found


def _receive(request: TemplateRequest, objects: Sequence[int]) -> None:
    for (kind, digest), descriptor in zip(request.objects.items(), objects, strict=True):
        try:
            object_name.receive(digest, descriptor)
        except Exception as error:
            remedy = "what it needs must be importable in every process of a run: put that module beside the script"
            raise UserError(f"{request.source}: the {kind} cannot be loaded: {in_one_line(error)}; {remedy}") from error


def _named(request: TemplateRequest, kind: str, name: str) -> str:
    """Return a name, with its object if it is one."""
    return object_name.received(name, request.objects[kind]) if kind in request.objects else name


def _load_others(request: TemplateRequest) -> None:
    if request.strategy:
        STRATEGIES.find(_named(request, "strategy", request.strategy), request.source, "strategy").preload()
    for path in request.rates:
        rate.load(path)
    for path in request.availability:
        availability.load(path)


def _load_task(request: TemplateRequest) -> Task:
    setting = Setting(devices=request.devices, data_seed=request.data_seed, model_seed=request.model_seed)
    with setup.as_profile_errors(request.source):
        return setup.entry(_named(request, "task", request.task), request.parameters, request.source).open(setting)


def _check_job(task: Task, request: TemplateRequest) -> None:
    try:
        task.check(request.job)
    except ParameterError as error:
        raise ProfileError(request.source, f"training.{error.key}", error.problem) from None


def _warm_up(task: Task, job: Job) -> None:
    if task.warm_up_steps:
        next(_trials(task, job if task.trains_itself else replace(job, momentum=0.5, proximal=0.1))(_FIRST_SAMPLES))


def _check_threads() -> None:
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the template has {threads} threads; only a process with one thread can be forked safely")


def _survey(task: Task, request: TemplateRequest, folder: Path, files: FileMarks) -> Survey:
    """Make the survey. ``files``: what was read for the task; if one has changed, no times are remembered."""
    largest = request.job.largest_step(len(shard) for shard in task.shards)
    key, meter = survey_memory.key(_dependencies(task, request, largest)), PressureMeter()
    is_current = files.are_unchanged()  # else the key has a text that this process has not imported
    times = None
    if request.remembered and is_current and (earlier := survey_memory.find(key)) is not None:
        times = _confirmed(task, request, earlier, largest, meter)
    age = 0.0
    if times is not None:
        age = max(1e-3, survey_memory.now() - times.measured_at)
    else:
        times = _measured(task, request, folder, largest, meter)
        is_calm = meter.share is None or meter.share <= survey_memory.BUSY
        # again: a module was perhaps edited meanwhile, or imported only now
        if is_calm and is_current and key == survey_memory.key(_dependencies(task, request, largest)):
            survey_memory.keep(key, times)
    return Survey(
        parameters=task.size,
        samples=tuple(len(shard) for shard in task.shards),
        flops_forward=times.flops_forward,
        flops_training=times.flops_training,
        work=task.work,
        data_sha256=task.data_sha256,
        steps=times.steps,
        evaluation_seconds=times.evaluation_seconds,
        metrics=times.metrics,
        update_seconds=times.update_seconds,
        crowd=request.crowd,
        device_bytes=times.device_bytes,
        notes=task.notes,
        governor=governor(),
        pressure=meter.share,
        measured_at=times.measured_at,
        age_seconds=age,
        key=key,
        task_digest=task.digest() if "task" in request.objects else "",
    )


def _dependencies(task: Task, request: TemplateRequest, largest: int) -> dict[str, object]:
    """Return what the times of a survey depend on, besides the host. ``largest``: samples of the largest step.

    Seeds change which samples a device has and where the model begins, not how long a step takes.
    """
    import torch

    return {
        "torch": str(torch.__version__),
        "task": request.task,
        "code": _code_of(request),
        "parameters": request.parameters,
        "size": task.size,
        "devices": request.devices,
        "largest_step": largest,
        "job": request.job,
        "crowd": {str(core): count for core, count in request.crowd.items()},
        "flops": request.flops,
    }


def _code_of(request: TemplateRequest) -> str:
    """Return a user's modules as text: the same name may stand for another network tomorrow.

    Empty for our own tasks, unless a parameter names code of a user's.
    """
    if "task" in request.objects:
        return request.objects["task"]
    entry = TASKS.find(request.task, request.source, "task")
    folders = entry.code_of(request.parameters)
    if request.task not in TASKS:
        module = sys.modules[entry.__module__]
        if module.__file__ is None:  # a class of a notebook has no file
            return f"unknown at {survey_memory.now()}"
        folders = (Path(module.__file__).parent, *folders)
    files = {str(file) for each in list(sys.modules.values()) if (file := getattr(each, "__file__", None))}
    beside = sorted(file for file in files if file.endswith(".py") and any(map(Path(file).is_relative_to, folders)))
    return "\n".join(Path(file).read_text(encoding="utf-8", errors="replace") for file in beside)


def _confirmed(
    task: Task, request: TemplateRequest, times: SurveyTimes, largest: int, meter: PressureMeter
) -> SurveyTimes | None:
    """Return the times of an earlier survey if a few steps of this moment confirm them.

    Without deadlines, nothing must be confirmed. The pressure is measured all the same, for the certificate.
    """
    steps = _trials(task, request.job)
    if not times.steps:
        calibration.feel_pressure(steps, largest, meter)
        return times
    for _ in range(_CHECKS):
        slower = calibration.slowdown(steps, times.steps, min(request.crowd), meter)
        if 1 / survey_memory.AGREES <= slower <= survey_memory.AGREES:
            return times.slower(max(1.0, slower))
    return None


def _trials(task: Task, job: Job) -> calibration.Steps:
    from devices.compute.trial_steps import trial_steps

    return lambda samples: trial_steps(task, job, samples)


def _measured(task: Task, request: TemplateRequest, folder: Path, largest: int, meter: PressureMeter) -> SurveyTimes:
    clock = WallClock.starting_now()
    with nullcontext() if request.crowd else meter:  # else the timing of steps measures the pressure
        metrics = task.evaluate(task.initial())
    evaluation = clock.now()
    forward, training = 0, 0
    if request.flops:
        counted: Any = calibration.in_child(task.flops)
        if counted is None:
            raise RuntimeError("counting the FLOPs of the network failed")
        if not all(counted):
            raise UserError(
                f"{request.source}: torch counts no FLOPs for the network of task {request.task!r};"
                " give seconds_per_sample or of_host for its devices"
            )
        forward, training = counted
    steps = _trials(task, request.job)
    return SurveyTimes(
        measured_at=survey_memory.now(),
        flops_forward=forward,
        flops_training=training,
        steps=calibration.measure(steps, largest, request.crowd, meter, task.step_sizes) if request.crowd else (),
        evaluation_seconds=evaluation,
        metrics=tuple(metrics),
        device_bytes=unique_memory.measure(steps, min(largest, _PIECE_SAMPLES))
        if task.step_sizes is None
        else unique_memory.measure(lambda _: steps(largest), 1),
    )
