"""Next-character prediction on Shakespeare's plays, by role: the character after 80 others (LEAF)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from testbed.common.parameters import Named, param
from testbed.learning.data.dataset import DataSet
from testbed.learning.data.windows import every
from testbed.learning.tasks import networks
from testbed.learning.tasks.recipe import Recipe
from testbed.learning.tasks.setting import Setting

if TYPE_CHECKING:
    from torch import nn


@dataclass(kw_only=True)
class Shakespeare(Recipe):
    """Shakespeare: the next character after 80, by role."""

    stored: ClassVar[str] = "shakespeare"

    model: str = networks.one_of("char-lstm", "tiny-transformer")
    split: Named = param("natural", "how training samples are assigned to devices; see list splits")
    stride: int = param(
        1,
        "distance between the first characters of two samples; 1: a sample at every character, as in LEAF",
        at_least=1,
    )

    def data(self, setting: Setting) -> DataSet:
        from testbed.learning.data import loader

        data = loader.load(self.stored, progress=setting.progress)
        return replace(data, train=every(data.train, self.stride), test=every(data.test, self.stride))

    def network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models import building

        return building.build(self.model, classes=len(data.classes))

    def derived(self, means: Mapping[str, float]) -> Mapping[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))}  # exp of more overflows
