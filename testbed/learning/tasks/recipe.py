"""The base class of tasks in profiles: its parameters and methods define data, split, network, loss and metrics.

A user's own task derives from :class:`Recipe` and defines ``data`` and ``network``; the rest has defaults. Nothing
here imports torch: the launcher lists, checks and partitions without it.
"""

from __future__ import annotations

import difflib
import inspect
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from testbed.common.errors import UserError
from testbed.common.parameters import Named, ParameterError, build, param
from testbed.learning.data.data_digest import data_digest
from testbed.learning.data.dataset import DataSet, Indices
from testbed.learning.splits import SPLITS, checked
from testbed.learning.splits.split import Split
from testbed.learning.tasks import checking, items
from testbed.learning.tasks.setting import Setting
from testbed.learning.tasks.task_entry import TaskEntry
from testbed.profile.schema import name_and_parameters

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.utils.data import Dataset

    from testbed.learning.training.local_job import LocalJob
    from testbed.learning.training.task import Task

    Datasets: TypeAlias = tuple[Dataset[Any], Dataset[Any]]
    """Training data and test data; an item is (input, target)."""


_METHODS = ("data", "network", "loss", "metrics", "derived", "train", "assign")
"""What a user's own task may define."""


@dataclass(kw_only=True)
class Recipe(TaskEntry):
    """A task before its data is loaded; its fields are its parameters."""

    split: Named = param(
        "iid",
        "how training samples are assigned to devices: a name (see list splits), or a table with name and parameters",
    )
    test_samples: int | None = param(
        None, "number of test samples that are scored, drawn with the data seed; unset: all", at_least=1
    )

    buffers: str = param(
        "average",
        "statistics of batch normalisation: part of the model, or kept by each device (docs/own-training.md)",
        choices=("average", "local"),
    )

    # ---- must be defined

    @abstractmethod
    def data(self, setting: Setting) -> DataSet | Datasets:
        """Return the data of all devices: arrays, or two torch data sets. Random data must use the data seed."""

    @abstractmethod
    def network(self, data: DataSet) -> nn.Module:
        """Return the untrained network. torch is seeded with the model seed."""

    # ---- may be defined; the default is classification by cross-entropy

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss over the samples."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets)

    def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
        """Return means of other metrics over the samples, by name."""
        from testbed.learning.training.network_task import accuracy

        return accuracy(outputs, targets)

    def derived(self, means: Mapping[str, float]) -> Mapping[str, float]:
        """Return metrics that follow from the means over all test samples, such as perplexity."""
        return {}

    def train(self, local: LocalJob) -> Iterator[float] | float | None:
        """Train ``local.network`` in place: as a generator that yields the loss of each step, or as a whole.

        A whole job returns its mean loss. Without it, devices train by the keys of ``[training]``.
        """
        raise NotImplementedError

    # ---- called by the testbed

    @classmethod
    def trains_itself(cls) -> bool:
        return cls.train is not Recipe.train

    @classmethod
    def trains_as_a_whole(cls) -> bool:
        """Whether a job has one deadline, at its end."""
        return cls.trains_itself() and not inspect.isgeneratorfunction(cls.train)

    def open(self, setting: Setting) -> Task:
        """Load and partition the data, build the network, and return the task."""
        import torch

        from testbed.learning.training.network_task import NetworkTask

        data = self.dataset(setting)
        shards, test = self.partition(data, setting)
        with torch.random.fork_rng(devices=[]):
            # not the seed itself: data that a task draws with torch and the same seed would equal the weights
            torch.manual_seed(int(np.random.SeedSequence([setting.model_seed, 4]).generate_state(1)[0]))
            module = self.network(data)
        task = NetworkTask(
            module=module,
            data=data,
            shards=shards,
            test=test,
            loss=self.loss,
            metrics=self.metrics,
            derived=self.derived,
            own=self.train if self.trains_itself() else None,
            local_buffers=self.buffers == "local",
        )
        task.data_sha256 = data_digest(data)
        task.notes = tuple(_notes(type(self), task.place))
        return task

    def check(self, setting: Setting) -> None:
        self.partition(self.dataset(setting), setting)

    def dataset(self, setting: Setting) -> DataSet:
        """Return the checked data as arrays. Raises UserError."""
        found: object = self.data(setting)
        if isinstance(found, DataSet):
            data = found
        elif isinstance(found, (tuple, list)) and len(found) == 2:
            data = items.as_arrays(*found)
        else:
            given = type(found).__name__ + (f" of {len(found)}" if isinstance(found, (tuple, list)) else "")
            raise UserError(
                f"{type(self).__name__}.data returned {given}; it must return two data sets, for training and for"
                " testing, or a DataSet"
            )
        checking.check(data)
        return data

    def partition(self, data: DataSet, setting: Setting) -> tuple[list[Indices], Indices]:
        """Return the checked result of :meth:`assign`, which may be a user's own. Raises ParameterError."""
        shards, test = self.assign(data, setting)
        who = type(self).__name__
        return (
            checked.shares(shards, len(data.train), setting.devices, who),
            checked.share(test, len(data.test), f"{who}.assign returned for testing"),
        )

    def assign(self, data: DataSet, setting: Setting) -> tuple[list[Indices], Indices]:
        """Return the training samples of each device, and the test samples that are scored. May be overridden."""
        rng = np.random.default_rng([setting.data_seed, 1])
        try:
            shards = checked.assign_checked(self._split(), data.train, setting.devices, rng)
        except ParameterError as error:
            raise ParameterError(f"split.{error.key}", error.problem) from None
        test = _test_samples(data, shards)
        if self.test_samples is not None and self.test_samples < len(test):
            test = np.sort(rng.choice(test, self.test_samples, replace=False))
        return shards, test

    def _split(self) -> Split:
        name, parameters = name_and_parameters(self.split)
        cls = SPLITS.find(name, "task", "split.name")
        split: Split = build(cls, parameters, "task", "split")
        return split


def _notes(recipe: type[Recipe], place: str) -> Iterator[str]:
    """Yield what a user should know of a class of his own: which training it has, and methods that nobody calls."""
    if recipe.trains_itself():
        how = "each job as a whole" if recipe.trains_as_a_whole() else "step by step"
        yield f"local training: {place}, {how}"
    own = [cls for cls in recipe.__mro__ if cls.__module__.partition(".")[0] != "testbed" and cls is not object]
    for name in dict.fromkeys(name for cls in own for name, value in vars(cls).items() if inspect.isfunction(value)):
        close = [] if hasattr(Recipe, name) else difflib.get_close_matches(name, _METHODS, n=1, cutoff=0.75)
        if close:
            yield f"{recipe.__name__}.{name} is not called by the testbed; did you mean {close[0]!r}?"


def _test_samples(data: DataSet, shards: Sequence[Indices]) -> Indices:
    """Return all test samples; if they have owners, only those of owners whose training samples are assigned."""
    all_samples = np.arange(len(data.test), dtype=np.int64)
    if data.train.owners is None or data.test.owners is None:
        return all_samples
    assigned = np.unique(data.train.owners[np.concatenate(shards)])
    own = all_samples[np.isin(data.test.owners, assigned)]
    return own if len(own) else all_samples
