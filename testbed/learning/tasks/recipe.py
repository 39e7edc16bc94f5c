"""What a profile's ``task`` names: a class with parameters that says how data, network and loss are made.

A task of one's own derives from :class:`Recipe` and defines ``data`` and ``network``; the rest has defaults. Nothing
here imports torch: the launcher lists, checks and deals without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from testbed.common.errors import UserError
from testbed.common.parameters import ParameterError, build, param
from testbed.learning.data.dataset import DataSet, Indices
from testbed.learning.splits import SPLITS, checked
from testbed.learning.splits.split import Split
from testbed.learning.tasks import checking, items
from testbed.learning.tasks.setting import Setting
from testbed.profile.schema import name_and_parameters

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.utils.data import Dataset

    from testbed.learning.tasks.task import Task

    Datasets: TypeAlias = tuple[Dataset[Any], Dataset[Any]]
    """For training and for testing; an item is (input, target)."""


@dataclass(kw_only=True)
class Recipe(ABC):
    """The parameters of a task."""

    split: str | dict[str, Any] = param(
        "iid", "how training data is dealt to devices: a name (list splits), or a table with name and parameters"
    )
    test_samples: int | None = param(
        None, "how many test samples are scored, drawn by the data seed; unset: all", at_least=1
    )

    # ---- to be defined

    @abstractmethod
    def data(self, setting: Setting) -> DataSet | Datasets:
        """The data of all devices: arrays, or two torch data sets. Whatever is drawn is drawn by the data seed."""

    @abstractmethod
    def network(self, data: DataSet) -> nn.Module:
        """The network, untrained. torch is seeded with the model seed."""

    # ---- to be defined where classification by cross-entropy is not what is meant

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean over the samples."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, targets)

    def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
        """Means over the samples, beside the loss."""
        from testbed.learning.tasks.task import accuracy

        return accuracy(outputs, targets)

    def derived(self, means: Mapping[str, float]) -> Mapping[str, float]:
        """What follows from the means over all test samples, and is none itself."""
        return {}

    # ---- what the testbed does with it

    def open(self, setting: Setting) -> Task:
        """Everything loaded, dealt and built."""
        import torch

        from testbed.learning.tasks.task import Task

        data = self.dataset(setting)
        shards, test = self.partition(data, setting)
        with torch.random.fork_rng(devices=[]):
            # not the seed itself: data that is drawn with torch, by the same number, would be made of the weights
            torch.manual_seed(int(np.random.SeedSequence([setting.model_seed, 4]).generate_state(1)[0]))
            module = self.network(data)
        return Task(
            module=module,
            data=data,
            shards=shards,
            test=test,
            loss=self.loss,
            metrics=self.metrics,
            derived=self.derived,
        )

    def dataset(self, setting: Setting) -> DataSet:
        """The data as arrays, checked."""
        found: object = self.data(setting)
        if isinstance(found, DataSet):
            data = found
        elif isinstance(found, (tuple, list)) and len(found) == 2:
            data = items.as_arrays(*found)
        else:
            given = type(found).__name__ + (f" of {len(found)}" if isinstance(found, (tuple, list)) else "")
            raise UserError(
                f"{type(self).__name__}.data gave {given}; it must give two data sets, to train and to test with,"
                " or a DataSet"
            )
        checking.check(data)
        return data

    def partition(self, data: DataSet, setting: Setting) -> tuple[list[Indices], Indices]:
        """What :meth:`deal` gives, checked: it may be a user's own."""
        shards, test = self.assign(data, setting)
        who = type(self).__name__
        return (
            checked.shares(shards, len(data.train), setting.devices, who),
            checked.share(test, len(data.test), f"{who}.deal gave to test with"),
        )

    def assign(self, data: DataSet, setting: Setting) -> tuple[list[Indices], Indices]:
        """The training samples of each device, and the test samples that are scored. May be overridden."""
        rng = np.random.default_rng([setting.data_seed, 1])
        try:
            shards = checked.assign_checked(self._split(), data.train, setting.devices, rng)
        except ParameterError as error:
            raise ParameterError(f"split.{error.key}", error.problem) from None
        test = _tested(data, shards)
        if self.test_samples is not None and self.test_samples < len(test):
            test = np.sort(rng.choice(test, self.test_samples, replace=False))
        return shards, test

    def _split(self) -> Split:
        name, parameters = name_and_parameters(self.split)
        cls = SPLITS.find(name, "task", "split.name")
        split: Split = build(cls, parameters, "task", "split")
        return split


def _tested(data: DataSet, shards: Sequence[Indices]) -> Indices:
    """All; but where owners have samples of both kinds, not those of owners whose training samples nobody has."""
    everything = np.arange(len(data.test), dtype=np.int64)
    if data.train.owners is None or data.test.owners is None:
        return everything
    partition = np.unique(data.train.owners[np.concatenate(shards)])
    own = everything[np.isin(data.test.owners, partition)]
    return own if len(own) else everything
