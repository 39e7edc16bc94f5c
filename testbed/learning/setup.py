"""The data of an experiment's task, loaded and partitioned: for the launcher, the template and the command ``data``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.common.by_value.object_name import ObjectName
from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import ParameterError, build
from testbed.common.progress_protocol import NO_PROGRESS, Progress
from testbed.learning.data.dataset import DataSet, Indices
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting
from testbed.learning.tasks.task_entry import TaskEntry
from testbed.profile.schema import Experiment


def setting(experiment: Experiment, progress: Progress = NO_PROGRESS) -> Setting:
    """Return what a task needs to know about the experiment."""
    return Setting(
        devices=sum(group.count for group in experiment.devices),
        data_seed=experiment.seed if experiment.data_seed is None else experiment.data_seed,
        model_seed=experiment.seed if experiment.model_seed is None else experiment.model_seed,
        progress=progress,
    )


def entry(name: str, parameters: Mapping[str, Any], source: str) -> TaskEntry:
    """Return the task of this name, or the object that the name has with it. Raises ProfileError."""
    if isinstance(name, ObjectName):
        own: TaskEntry = name.value
        return own
    made: TaskEntry = build(TASKS.find(name, source, "task.name"), parameters, source, "task")
    return made


def partition(experiment: Experiment, progress: Progress) -> tuple[DataSet, list[Indices], Indices]:
    """Return the data, the training samples of each device, and the test samples. Downloads missing files.

    Raises UserError if the task has no data that we know.
    """
    context = setting(experiment, progress)
    task = entry(experiment.task_name, experiment.task_parameters, experiment.name)
    if not isinstance(task, Recipe):
        raise UserError(f"task {experiment.task_name}: its clients load their own data; there is no partition to show")
    with as_profile_errors(experiment.name):
        data = task.dataset(context)
        return data, *task.partition(data, context)


def check(experiment: Experiment, progress: Progress) -> None:
    """Check the task before any process starts: load and partition its data, if it has any. Raises UserError.

    Other errors in a user's own task are ignored here: they happen again in the template, which reports where. An
    object of the user's is left alone: the template checks its copy.
    """
    if isinstance(experiment.task_name, ObjectName):
        return
    task = entry(experiment.task_name, experiment.task_parameters, experiment.name)
    try:
        with as_profile_errors(experiment.name):
            task.check(setting(experiment, progress))
    except UserError:
        raise
    except Exception:
        if experiment.task_name in TASKS:
            raise


@contextlib.contextmanager
def as_profile_errors(source: str) -> Iterator[None]:
    """Convert ParameterError, such as for a split that does not fit the data, to ProfileError."""
    try:
        yield
    except ParameterError as error:
        raise ProfileError(source, f"task.{error.key}", error.problem) from None
