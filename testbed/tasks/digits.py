"""Handwritten digits, embedded: the 1,797 real 8×8 images that scikit-learn ships (UCI "optical recognition of
handwritten digits", E. Alpaydin and C. Kaynak, CC BY 4.0), 80 % for training and 20 % for testing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from testbed.parameters import param
from testbed.tasks import splits

if TYPE_CHECKING:
    from testbed.tasks.task import Task

_FILE = Path(__file__).parent / "digits.npz"
_TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """Handwritten digits, 10 classes, embedded real data."""

    model: str = param(
        "small-cnn",
        "small-cnn: 6,090 parameters on 8×8; cnn: 21,840 parameters on 28×28 (enlarged)",
        choices=("small-cnn", "cnn"),
    )
    split: str = param("dirichlet", "how training data is dealt to devices", choices=("dirichlet", "iid"))
    alpha: float = param(0.5, "Dirichlet concentration: small is uneven", above=0)

    def open(self, devices: int, seed: int) -> Task:
        # torch is imported here, not above: the launcher only needs the parameters
        from testbed.tasks import models
        from testbed.tasks.task import Task

        with np.load(_FILE) as stored:
            images, labels = stored["images"].astype(np.float32) / 16.0, stored["labels"].astype(np.int64)
        if self.model == "cnn":
            images = np.pad(np.kron(images, np.ones((1, 3, 3), np.float32)), ((0, 0), (2, 2), (2, 2)))
        rng = np.random.default_rng([seed, 1])
        order = rng.permutation(len(labels))
        images, labels = images[order, None], labels[order]
        held_out = int(len(labels) * _TEST_SHARE)
        train_labels = labels[held_out:]
        if self.split == "iid":
            shards = splits.iid(len(train_labels), devices, rng)
        else:
            shards = splits.dirichlet(train_labels, devices, self.alpha, rng)
        return Task(
            module=models.build(self.model, seed),
            train=(images[held_out:], train_labels),
            test=(images[:held_out], labels[:held_out]),
            shards=shards,
        )
