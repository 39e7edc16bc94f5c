"""Handwritten digits, included in the package.

The 1,797 real 8×8 images of scikit-learn (UCI "optical recognition of handwritten digits", E. Alpaydin and C. Kaynak,
CC BY 4.0), 80 % for training and 20 % for testing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from testbed.common.parameters import Named, param
from testbed.learning.data.dataset import DataSet, Subset
from testbed.learning.tasks import networks
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

if TYPE_CHECKING:
    from torch import nn

_FILE = Path(__file__).parent / "digits.npz"
_TEST_SHARE = 0.2


@dataclass(kw_only=True)
class Digits(Recipe):
    """Handwritten digits, 10 classes, real data included in the package."""

    model: str = networks.one_of("small-cnn", "small-mlp", "small-cnn-bn", "cnn", "over-cnn", "lenet5", "eafl-cnn")
    split: Named = param("dirichlet", "how training samples are assigned to devices; see list splits")

    def data(self, setting: Setting) -> DataSet:
        with np.load(_FILE) as stored:
            images, labels = stored["images"].astype(np.float32) / 16.0, stored["labels"].astype(np.int64)
        if not self.model.startswith("small-"):  # enlarged to 28×28
            images = np.pad(np.kron(images, np.ones((1, 3, 3), np.float32)), ((0, 0), (2, 2), (2, 2)))
        order = np.random.default_rng([setting.data_seed, 0]).permutation(len(labels))
        images, labels = images[order, None], labels[order]
        held_out = int(len(labels) * _TEST_SHARE)
        return DataSet(
            train=Subset(inputs=images[held_out:], targets=labels[held_out:]),
            test=Subset(inputs=images[:held_out], targets=labels[:held_out]),
            classes=tuple("0123456789"),
        )

    def network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models import building

        return building.build(self.model)
