"""What all tasks for a user's own data share: test samples, normalisation, network, loss and metrics.

The files are parsed once for each of their states, by the launcher before it starts any process, into arrays in the
cache; templates and devices map these. Nothing of a sample is copied but the batch of a step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError, param
from testbed.learning.data.dataset import DataSet, Inputs, Subset
from testbed.learning.models import NETWORKS, fitting
from testbed.learning.tasks.own_data.held_out import ChosenSamples, drawn, moments
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

if TYPE_CHECKING:
    import torch
    from torch import nn

    from testbed.learning.data.cache import Stored
    from testbed.learning.data.readers.source import FoundFiles
    from testbed.learning.training.task import Task

_SHARE = 0.2
_HIDDEN = (64, 32)
VECTOR_NETWORKS = ("mlp", "linear")
IMAGE_NETWORKS = (
    "small-cnn",
    "mlp",
    "linear",
    "small-mlp",
    "cnn",
    "over-cnn",
    "lenet5",
    "eafl-cnn",
    "lenet",
    "vgg11",
    "femnist-cnn",
)


def network_among(names: tuple[str, ...]) -> Any:
    """Return the parameter ``model``, of which the first name is the default."""
    return param(
        names[0],
        "network; mlp, linear and small-cnn adapt to the samples, the others need the samples of their papers",
        choices=names,
    )


@dataclass(kw_only=True)
class OwnData(Recipe):
    """A task whose samples are in files of the user."""

    kind: ClassVar[str]
    """Name of its folders in the cache."""
    model: str
    target: str = param(
        "class",
        "what the label is. class: a name or number of a class; value: a number to predict",
        choices=("class", "value"),
    )
    test_share: float | None = param(
        None,
        "share of the samples that is held out for testing, drawn with the data seed; unset: 0.2, or the test part of"
        " the data if it has one",
        above=0,
        below=1,
    )
    normalise: bool = param(
        True,
        "whether inputs get mean 0 and standard deviation 1, as measured on the training samples: by feature, or by"
        " channel of images; values to predict are divided likewise in the loss",
    )
    hidden: tuple[int, ...] = param(
        _HIDDEN, "widths of the inner layers of the network mlp", at_least=1, at_most=65_536
    )
    most_mb: int = param(2_048, "the most megabytes that the samples may need as arrays", at_least=1)
    _value_moments: tuple[float, float] = field(default=(0.0, 1.0), init=False, repr=False)
    """Mean and standard deviation of the training samples' values to predict."""

    # ---- must be defined

    @abstractmethod
    def source(self) -> Path:
        """Return the file or folder."""

    @abstractmethod
    def found(self) -> FoundFiles:
        """Return the files, their state, and how to parse them. Raises UserError."""

    # ---- the task

    def located(self, folder: Path) -> Self:
        paths: dict[str, Any] = {
            name: _absolute(folder, name, path) for name, path in self.paths().items() if path is not None
        }
        return replace(self, **paths)

    @abstractmethod
    def paths(self) -> Mapping[str, str | None]:
        """Return the parameters that are paths."""

    def data_state(self) -> str:
        return self.found().state

    @property
    def is_value(self) -> bool:
        return self.target == "value"

    def data(self, setting: Setting) -> DataSet:
        from testbed.learning.data import cache

        if self.model != "mlp" and self.hidden != _HIDDEN:
            raise ParameterError("hidden", f"is given, but the network is {self.model}, and only mlp has such layers")
        stored = cache.stored(self.kind, self.found(), setting.progress)
        data = self._parts(stored, setting)
        self._check_network(data)
        return self._normalised(data, setting)

    def _parts(self, stored: Stored, setting: Setting) -> DataSet:
        arrays = stored.arrays
        whole = _part(arrays, "train")
        if "test_inputs" in arrays:
            if self.test_share is not None:
                problem = "is given, but the data has test samples of its own: leave it out"
                raise ParameterError("test_share", problem)
            train, test = whole, _part(arrays, "test")
        else:
            share = _SHARE if self.test_share is None else self.test_share
            numbers = drawn(len(whole), share, str(self.source()), setting.data_seed)
            train, test = (_chosen(arrays, each) for each in numbers)
        return DataSet(train=train, test=test, classes=stored.classes, owners=stored.owners, sha256=stored.sha256)

    def _normalised(self, data: DataSet, setting: Setting) -> DataSet:
        is_bytes = data.train.inputs[np.zeros(1, np.int64)].dtype == np.uint8
        if self.is_value and self.normalise:
            targets = np.asarray(data.train.targets, np.float64)
            self._value_moments = (float(targets.mean()), float(targets.std()) or 1.0)
        if self.normalise:
            setting.progress.start("measuring the samples")
            mean, std = moments(data.train.inputs)
        elif is_bytes:
            mean, std = (0.0,), (self.byte_unit(),)
        else:
            mean, std = (), ()
        return replace(data, mean=mean, std=std)

    def byte_unit(self) -> float:
        """Return by what bytes are divided if they are not normalised."""
        return 1.0

    def _check_network(self, data: DataSet) -> None:
        shape = data.train.inputs[np.zeros(1, np.int64)].shape[1:]
        problem = fitting.misfit(self.model, shape, self._outputs(data), IMAGE_NETWORKS)
        if problem:
            raise ParameterError("model", f"is {self.model}, which {problem}")

    def _outputs(self, data: DataSet) -> int:
        return 1 if self.is_value else len(data.classes)

    def network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models import building

        shape = data.train.inputs[np.zeros(1, np.int64)].shape[1:]
        return building.build_for(self.model, shape, self._outputs(data), self.hidden)

    def open(self, setting: Setting) -> Task:
        task = super().open(setting)
        if NETWORKS[self.model].flops:
            task.work = max(1.0, task.flops()[1] / NETWORKS[self.model].flops)
        return task

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if not self.is_value:
            return super().loss(outputs, targets)
        mean, deviation = self._value_moments
        return ((outputs.squeeze(1) - (targets - mean) / deviation) ** 2).mean()

    def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
        if not self.is_value:
            return super().metrics(outputs, targets)
        mean, deviation = self._value_moments
        return {"mse": float(((outputs.squeeze(1) * deviation + mean - targets) ** 2).mean())}


def _absolute(folder: Path, name: str, path: str) -> str:
    try:
        place = str((folder / path).resolve())
        place.encode()  # the stored profile is UTF-8
    except (OSError, ValueError, RuntimeError) as error:
        raise ParameterError(name, f"is {path!r}; {error}") from None
    return place


def _part(arrays: Mapping[str, npt.NDArray[Any]], part: str) -> Subset:
    inputs: Inputs = arrays[f"{part}_inputs"]
    return Subset(inputs=inputs, targets=arrays[f"{part}_targets"], owners=arrays.get(f"{part}_owners"))


def _chosen(arrays: Mapping[str, npt.NDArray[Any]], numbers: npt.NDArray[np.int64]) -> Subset:
    owners = arrays.get("train_owners")
    return Subset(
        inputs=ChosenSamples(arrays["train_inputs"], numbers),
        targets=arrays["train_targets"][numbers],
        owners=None if owners is None else owners[numbers],
    )
