"""FEMNIST and Shakespeare with smaller networks than AsyncFedED's, so that two cores can run ten devices.

The layers are those of the paper (Wang et al. 2022, appendix B.1); only their widths, the first stride and the part
of the text that is read are smaller. They are not in the catalogue; use
``task = "testbed.learning.tasks.smaller_tasks:SmallFemnist"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from testbed.common.parameters import param
from testbed.learning.data.dataset import DataSet
from testbed.learning.tasks.image_tasks import Femnist
from testbed.learning.tasks.shakespeare_task import Shakespeare

if TYPE_CHECKING:
    from torch import nn


@dataclass(kw_only=True)
class SmallFemnist(Femnist):
    """FEMNIST with 8 and 16 filters instead of 32 and 64: 26,238 parameters."""

    filters: int = param(8, "filters of the first convolution; the second has twice as many", at_least=1)

    def network(self, data: DataSet) -> nn.Module:
        from torch import nn

        return nn.Sequential(
            nn.Conv2d(1, self.filters, 5, stride=2),
            nn.ReLU(),
            nn.Conv2d(self.filters, 2 * self.filters, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(50 * self.filters, len(data.classes)),
        )


@dataclass(kw_only=True)
class SmallShakespeare(Shakespeare):
    """Shakespeare with two LSTM layers of 32 instead of 256, which read the last 5 of the 80 characters."""

    hidden: int = param(32, "width of an LSTM layer", at_least=1)
    read: int = param(5, "number of characters that are read before the predicted one", at_least=1, at_most=80)

    def network(self, data: DataSet) -> nn.Module:
        from testbed.learning.models.text_networks import CharLSTM

        return CharLSTM(len(data.classes), hidden=self.hidden, read=self.read)
