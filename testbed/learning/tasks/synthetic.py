"""Synthetic(α, β): every device has a model and inputs of its own; α and β control how much they differ.

T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith: Federated Optimization in Heterogeneous Networks.
MLSys 2020, Section 5.1.

Symbols: device k draws u_k ~ N(0, α), B_k ~ N(0, β), and of them W_k, b_k ~ N(u_k, 1), v_k ~ N(B_k, 1);
inputs x ~ N(v_k, Σ) with Σ diagonal, Σ_jj = j^−1.2; labels y = argmax(W_k x + b_k).

Reading: α and β are standard deviations, as in the authors' generator; for (0, 0) and (1, 1) it makes no difference.
The number of samples of a device follows a power law in the paper and is log-normal in the generator (50 + e^N(4, 2)),
which we follow; a maximum prevents one device from having nearly all samples. A tenth of each device's samples is for
testing (Wang et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from testbed.common.parameters import Named, param
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks import networks
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

if TYPE_CHECKING:
    from torch import nn

_INPUTS, _CLASSES = 60, 10
_LEAST, _MOST = 50, 5_000
_TEST_SHARE = 0.1


@dataclass(kw_only=True)
class Synthetic(Recipe):
    """Synthetic(α, β): generated, 60 inputs, 10 classes; devices differ in model and inputs."""

    model: str = networks.one_of("mlp")
    alpha: float = param(1.0, "how much the devices' models differ", at_least=0)
    beta: float = param(1.0, "how much the devices' inputs differ", at_least=0)
    split: Named = param("natural", "how training samples are assigned to devices; see list splits")

    def data(self, setting: Setting) -> DataSet:
        rng = np.random.default_rng([setting.data_seed, 0])
        sizes = np.minimum(_MOST, _LEAST + rng.lognormal(4.0, 2.0, setting.devices).astype(np.int64))
        parts = [self._of_device(int(size), rng) for size in sizes]
        held_out = [max(1, round(_TEST_SHARE * size)) for size in sizes]
        return DataSet(
            train=_joined([(x[cut:], y[cut:]) for (x, y), cut in zip(parts, held_out, strict=True)]),
            test=_joined([(x[:cut], y[:cut]) for (x, y), cut in zip(parts, held_out, strict=True)]),
            classes=tuple(map(str, range(_CLASSES))),
            owners=tuple(f"device {number}" for number in range(setting.devices)),
        )

    def _of_device(self, samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        shift, place = self.alpha * rng.normal(), self.beta * rng.normal()  # u_k, B_k
        weights, bias = rng.normal(shift, 1.0, (_INPUTS, _CLASSES)), rng.normal(shift, 1.0, _CLASSES)  # W_k, b_k
        centre = rng.normal(place, 1.0, _INPUTS)  # v_k
        deviation = np.arange(1, _INPUTS + 1) ** -0.6  # √Σ_jj
        inputs = centre + deviation * rng.normal(size=(samples, _INPUTS))
        return inputs.astype(np.float32), (inputs @ weights + bias).argmax(axis=1)

    def network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models import building

        return building.build(self.model)


def _joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> Subset:
    owners = np.repeat(np.arange(len(parts)), [len(labels) for _, labels in parts])
    inputs, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Subset(inputs=inputs, targets=labels, owners=owners)
