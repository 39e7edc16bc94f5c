"""What all kinds of a user's own data share: test samples, normalisation, and a network that fits.

The files are parsed once for each of their states, by the launcher before it starts any process, into arrays in the
cache; templates and devices map these. Nothing of a sample is copied but the batch of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import ParameterError, param
from testbed.common.progress_protocol import Progress
from testbed.learning.data.dataset import DataSet, Inputs, Subset
from testbed.learning.models import NETWORKS, fitting
from testbed.learning.own_data.held_out import ChosenSamples, drawn, moments

if TYPE_CHECKING:
    from torch import nn

    from testbed.learning.data.cache import Stored
    from testbed.learning.data.readers.source import FoundFiles

_SHARE = 0.2
_FIRST = np.zeros(1, np.int64)
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
    "small-cnn-bn",
    "resnet18",
    "resnet18-bn",
    "mobilenet",
    "mobilenet-bn",
)


def network_among(names: tuple[str, ...]) -> Any:
    """Return the parameter ``model``, of which the first name is the default."""
    return param(
        names[0],
        "network; mlp, linear and small-cnn adapt to the samples, the others need the samples of their papers",
        choices=names,
    )


@dataclass(kw_only=True)
class OwnData(ABC):
    """Samples in files of the user."""

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
    value_moments: tuple[float, float] = field(default=(0.0, 1.0), init=False, repr=False)
    """Mean and standard deviation of the training samples' values to predict."""

    # ---- must be defined

    @abstractmethod
    def source(self) -> Path:
        """Return the file or folder."""

    @abstractmethod
    def found(self) -> FoundFiles:
        """Return the files, their state, and how to parse them. Raises UserError."""

    @abstractmethod
    def paths(self) -> Mapping[str, str | None]:
        """Return the parameters that are paths."""

    # ---- the samples

    @property
    def is_value(self) -> bool:
        return self.target == "value"

    def absolute_paths(self, folder: Path) -> dict[str, Any]:
        """Return the parameters that are paths, which are relative to ``folder``. Raises ParameterError."""
        return {name: _absolute(folder, name, path) for name, path in self.paths().items() if path is not None}

    def check_keys(self) -> None:
        """Raise ParameterError if parameters contradict each other."""
        if self.model != "mlp" and self.hidden != _HIDDEN:
            raise ParameterError("hidden", f"is given, but the network is {self.model}, and only mlp has such layers")

    def load(self, data_seed: int, progress: Progress) -> DataSet:
        """Return training and test samples. Raises UserError or ParameterError."""
        from testbed.learning.data import cache

        self.check_keys()
        stored = cache.stored(self.kind, self.found(), progress)
        data = self._parts(stored, data_seed)
        problem = fitting.misfit(self.model, _shape(data), self._outputs(data), IMAGE_NETWORKS)
        if problem:
            raise ParameterError("model", f"is {self.model}, which {problem}")
        return self._normalised(data, progress)

    def _parts(self, stored: Stored, data_seed: int) -> DataSet:
        arrays = stored.arrays
        if "test_inputs" in arrays:
            if self.test_share is not None:
                problem = "is given, but the data has test samples of its own: leave it out"
                raise ParameterError("test_share", problem)
            train, test = _part(arrays, "train"), _part(arrays, "test")
        else:
            share = _SHARE if self.test_share is None else self.test_share
            numbers = drawn(len(arrays["train_targets"]), share, str(self.source()), data_seed)
            train, test = (_chosen(arrays, each) for each in numbers)
        return DataSet(train=train, test=test, classes=stored.classes, owners=stored.owners, sha256=stored.sha256)

    def _normalised(self, data: DataSet, progress: Progress) -> DataSet:
        if self.is_value and self.normalise:
            targets = np.asarray(data.train.targets, np.float64)
            self.value_moments = (float(targets.mean()), float(targets.std()) or 1.0)
        mean: tuple[float, ...] = ()
        std: tuple[float, ...] = ()
        if self.normalise:
            progress.start("measuring the samples")
            mean, std = moments(data.train.inputs)
        elif data.train.inputs[_FIRST].dtype == np.uint8:
            mean, std = (0.0,), (self.byte_unit(),)
        return replace(data, mean=mean, std=std)

    def byte_unit(self) -> float:
        """Return by what bytes are divided if they are not normalised."""
        return 1.0

    # ---- the network

    def _outputs(self, data: DataSet) -> int:
        return 1 if self.is_value else len(data.classes)

    def build_network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models import building

        return building.build_for(self.model, _shape(data), self._outputs(data), self.hidden)

    def work(self, flops: int) -> float:
        """Return the FLOPs of training on one sample as a multiple of those of the catalogue's network; at least 1."""
        known = NETWORKS[self.model].flops
        return max(1.0, flops / known) if known else 1.0


def _shape(data: DataSet) -> tuple[int, ...]:
    """Return the shape of a sample."""
    return data.train.inputs[_FIRST].shape[1:]


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
        owners_from="name them by task.owner",
    )
