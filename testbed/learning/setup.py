"""From the task that a profile names to its data, dealt: for the launcher, the template and the command ``data``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import ParameterError, build
from testbed.common.progress import NO_PROGRESS, Progress
from testbed.learning.data.dataset import DataSet, Indices
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting
from testbed.profile.schema import Experiment


def setting(experiment: Experiment, progress: Progress = NO_PROGRESS) -> Setting:
    return Setting(
        devices=sum(group.count for group in experiment.devices),
        data_seed=experiment.seed if experiment.data_seed is None else experiment.data_seed,
        model_seed=experiment.seed if experiment.model_seed is None else experiment.model_seed,
        progress=progress,
    )


def recipe(name: str, parameters: Mapping[str, Any], source: str) -> Recipe:
    made: Recipe = build(TASKS.find(name, source, "task.name"), parameters, source, "task")
    return made


def partition(experiment: Experiment, progress: Progress) -> tuple[DataSet, list[Indices], Indices]:
    """The data, the training samples of each device, and the test samples that are scored. Fetches what is missing."""
    asked, chosen = (
        setting(experiment, progress),
        recipe(experiment.task_name, experiment.task_parameters, experiment.name),
    )
    with blamed_on(experiment.name):
        data = chosen.dataset(asked)
        return data, *chosen.partition(data, asked)


def check(experiment: Experiment, progress: Progress) -> None:
    """Files are fetched and read, and the data is dealt, before any process starts.

    The code of a user's own task may fail in any way: the template meets that again, and tells the user where.
    """
    try:
        partition(experiment, progress)
    except UserError:
        raise
    except Exception:
        if experiment.task_name in TASKS:
            raise


@contextlib.contextmanager
def blamed_on(source: str) -> Iterator[None]:
    """A split that does not fit the data is an error of the profile."""
    try:
        yield
    except ParameterError as error:
        raise ProfileError(source, f"task.{error.key}", error.problem) from None
