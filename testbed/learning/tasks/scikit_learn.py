"""An estimator of scikit-learn on the data of another task (docs/scikit-learn.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from testbed.common.errors import ProfileError
from testbed.common.finders import user_code
from testbed.common.parameters import Named, ParameterError, as_table, build, param
from testbed.learning.data.data_digest import data_digest
from testbed.learning.data.dataset import DataSet
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting
from testbed.profile.schema import name_and_parameters

if TYPE_CHECKING:
    from torch import nn

    from testbed.learning.training.task import Task

_OURS = ("split", "test_samples", "buffers")


@dataclass(kw_only=True)
class ScikitLearn(Recipe):
    """An estimator of scikit-learn: each step is one partial_fit."""

    estimator: str = param(
        "sklearn.linear_model:SGDClassifier",
        "module:Class of a classifier or regressor with partial_fit and coef_ (or coefs_)",
    )
    parameters: dict[str, Any] = param(
        default_factory=dict, meaning="parameters of the estimator; its learning rate is training.lr"
    )
    data_from: Named = param("digits", "the task whose data it learns: a name, or a table with name and parameters")

    def data(self, setting: Setting) -> DataSet:
        return self._source().dataset(setting)

    def network(self, data: DataSet) -> nn.Module:
        raise AssertionError("an estimator is not a network of torch")

    def open(self, setting: Setting) -> Task:
        from testbed.learning.training.estimator_task import EstimatorTask
        from testbed.learning.training.flat_estimator import FlatEstimator

        data = self.dataset(setting)
        shards, test = self.partition(data, setting)
        seed = int(np.random.SeedSequence([setting.model_seed, 4]).generate_state(1)[0])
        estimator = FlatEstimator(self.estimator, self.parameters, seed)
        task = EstimatorTask(estimator=estimator, place=self.estimator, data=data, shards=shards, test=test)
        task.data_sha256 = data_digest(data)
        return task

    def located(self, folder: Path) -> Self:
        source = self._source()
        located = source.located(folder)
        if located == source:
            return self
        name, _ = name_and_parameters(self.data_from)
        own = {key: item for key, item in as_table(located).items() if key not in _OURS}
        return replace(self, data_from={"name": name, **own})

    def data_state(self) -> str:
        return self._source().data_state()

    @classmethod
    def code_of(cls, parameters: Mapping[str, Any]) -> tuple[Path, ...]:
        source, _ = name_and_parameters(parameters.get("data_from", ""))
        modules = [path.partition(":")[0] for path in (parameters.get("estimator", ""), source) if ":" in path]
        return tuple(folder for each in modules if (folder := user_code.folder_of(each)) is not None)

    def _source(self) -> Recipe:
        """Return the task that has the data. Raises ParameterError."""
        from testbed.learning.tasks import TASKS

        if isinstance(self.data_from, dict) and not isinstance(self.data_from.get("name"), str):
            raise ParameterError("data_from.name", "is missing; it must name a task")
        name, parameters = name_and_parameters(self.data_from)
        for key in _OURS:
            if key in parameters:
                raise ParameterError(
                    f"data_from.{key}", f"is {parameters[key]!r}; give it to the task itself: task.{key}"
                )
        try:
            found = TASKS.find(name, "", "data_from")
            if issubclass(found, ScikitLearn) or not issubclass(found, Recipe):
                raise ParameterError("data_from", f"is {name!r}, which has no data of its own; name another task")
            made: Recipe = build(found, parameters, "", "data_from")
            return made
        except ProfileError as error:
            raise ParameterError(error.key, error.problem) from None
