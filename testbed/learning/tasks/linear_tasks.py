"""Linear regression and a linear support vector machine on generated data.

A. Forootani, R. Iervolino: Asynchronous Federated Learning: A Scalable Approach for Decentralized Machine Learning.
2025, Section VI: 2000 samples of 10 inputs, x ~ U[−5, 5], w ~ U[2, 4], y = wᵀx + 5, plus N(0, 0.2) for
regression; for the SVM, labels by whether y > 0.

Departures: 500 further samples are generated for testing; the paper does not mention any. Regression has no labels,
so a Dirichlet split draws the sizes of the devices' shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from testbed.common.parameters import Named, param
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks import networks
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

if TYPE_CHECKING:
    import torch
    from torch import nn

_TRAINING, _TESTING, _INPUTS = 2_000, 500, 10
_BIAS, _NOISE = 5.0, 0.2


@dataclass(kw_only=True)
class _Linear(Recipe):
    model: str = networks.one_of("linear")
    split: Named = param("dirichlet", "how training samples are assigned to devices; see list splits")

    def network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models import building

        return building.build(self.model)


@dataclass(kw_only=True)
class Regression(_Linear):
    """Linear regression: generated, 10 inputs; ½ squared error."""

    def data(self, setting: Setting) -> DataSet:
        inputs, values, rng = _drawn(setting)
        values += rng.normal(0.0, _NOISE, len(values))
        return _parts(inputs, values.astype(np.float32))

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return ((outputs.squeeze(1) - targets) ** 2).mean() / 2

    def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
        return {"mse": float(((outputs.squeeze(1) - targets) ** 2).mean())}


@dataclass(kw_only=True)
class Svm(_Linear):
    """Linear support vector machine: generated, 10 inputs, two classes; hinge loss."""

    def data(self, setting: Setting) -> DataSet:
        inputs, values, _ = _drawn(setting)
        return _parts(inputs, (values > 0).astype(np.int64), classes=("−1", "+1"))

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (1 - (2 * targets - 1) * outputs.squeeze(1)).clamp(min=0).mean()  # labels ±1

    def metrics(self, outputs: torch.Tensor, targets: torch.Tensor) -> Mapping[str, float]:
        return {"accuracy": float(((outputs.squeeze(1) > 0) == (targets > 0)).float().mean())}


def _drawn(setting: Setting) -> tuple[npt.NDArray[Any], npt.NDArray[Any], np.random.Generator]:
    rng = np.random.default_rng([setting.data_seed, 0])
    weights = rng.uniform(2.0, 4.0, _INPUTS)
    inputs = rng.uniform(-5.0, 5.0, (_TRAINING + _TESTING, _INPUTS))
    return inputs, inputs @ weights + _BIAS, rng


def _parts(inputs: npt.NDArray[Any], targets: npt.NDArray[Any], classes: tuple[str, ...] = ()) -> DataSet:
    inputs = inputs.astype(np.float32)
    return DataSet(
        train=Subset(inputs=inputs[:_TRAINING], targets=targets[:_TRAINING]),
        test=Subset(inputs=inputs[_TRAINING:], targets=targets[_TRAINING:]),
        classes=classes,
    )
