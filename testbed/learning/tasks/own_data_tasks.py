"""Tasks for a user's own files, without any Python: classification, or the prediction of a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from testbed.learning.data.dataset import DataSet
from testbed.learning.own_data.csv_data import CsvData
from testbed.learning.own_data.hugging_face_data import HuggingFaceData
from testbed.learning.own_data.image_data import ImageData
from testbed.learning.own_data.npz_data import NpzData
from testbed.learning.own_data.own_data import OwnData
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

if TYPE_CHECKING:
    import torch
    from torch import nn

    from testbed.learning.training.task import Task


@dataclass(kw_only=True)
class _OwnDataTask(OwnData, Recipe):
    """Cross-entropy for classes; for values, the squared error in units of their variance."""

    def located(self, folder: Path) -> Self:
        return replace(self, **self.absolute_paths(folder))

    def data_state(self) -> str:
        return self.found().state

    def data(self, setting: Setting) -> DataSet:
        return self.load(setting.data_seed, setting.progress)

    def network(self, data: DataSet) -> nn.Module:
        return self.build_network(data)

    def open(self, setting: Setting) -> Task:
        task = super().open(setting)
        if self._has_network_of_ours():  # to count a user's, torch imports what no template may have
            task.work = self.work(task.flops()[1])
        return task

    def _has_network_of_ours(self) -> bool:
        """Whether the network is the one that ``model`` names: a subclass may define its own."""
        cls = type(self)
        return cls.network is _OwnDataTask.network and cls.build_network is OwnData.build_network

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if not self.is_value:
            return super().loss(outputs, targets)
        mean, deviation = self.value_moments
        return ((outputs.squeeze(1) - (targets - mean) / deviation) ** 2).mean()

    def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
        if not self.is_value:
            return super().metrics(outputs, targets)
        mean, deviation = self.value_moments
        return {"mse": float(((outputs.squeeze(1) * deviation + mean - targets) ** 2).mean())}


@dataclass(kw_only=True)
class Csv(CsvData, _OwnDataTask):
    """Your own CSV: numbers by column, a label to classify or to predict."""


@dataclass(kw_only=True)
class Npz(NpzData, _OwnDataTask):
    """Your own .npz: arrays of vectors or images, and of labels or values."""


@dataclass(kw_only=True)
class ImageFolder(ImageData, _OwnDataTask):
    """Your own images: a folder with a subfolder for each class."""


@dataclass(kw_only=True)
class HuggingFace(HuggingFaceData, _OwnDataTask):
    """Your own Hugging Face data set, saved by save_to_disk; needs edgebed[hf]."""
