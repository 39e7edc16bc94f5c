"""A .npz of numpy: arrays x and y, or x_train, y_train, x_test and y_test, or named by keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from testbed.common.parameters import param
from testbed.learning.own_data.own_data import IMAGE_NETWORKS, OwnData, network_among

if TYPE_CHECKING:
    from testbed.learning.data.readers.source import FoundFiles

_NETWORKS = ("mlp", *(name for name in IMAGE_NETWORKS if name != "mlp"))


@dataclass(kw_only=True)
class NpzData(OwnData):
    """The keys of a .npz."""

    kind: ClassVar[str] = "npz"
    file: str = param(meaning="the .npz; path relative to the profile")
    inputs: str | None = param(None, "array of the samples; unset: x, or x_train")
    label: str | None = param(None, "array of the labels; unset: y, or y_train")
    test_inputs: str | None = param(None, "array of the test samples; unset: x_test if there is one")
    test_label: str | None = param(None, "array of the labels of the test samples; unset: y_test if there is one")
    owner: str | None = param(None, "array that says whose a training sample is, for the split natural")
    channels: str = param(
        "auto",
        "where an image has its channels. first: N × C × H × W; last: N × H × W × C; auto: last if only the last number"
        " is 1, 3 or 4",
        choices=("auto", "first", "last"),
    )
    model: str = network_among(_NETWORKS)

    def source(self) -> Path:
        return Path(self.file)

    def paths(self) -> Mapping[str, str | None]:
        return {"file": self.file}

    def found(self) -> FoundFiles:
        from testbed.learning.data.own_files import npz_file
        from testbed.learning.data.own_files.file_state import state_of
        from testbed.learning.data.own_files.size_limit import SizeLimit
        from testbed.learning.data.readers.source import FoundFiles

        choice = npz_file.NpzChoice(
            is_value=self.is_value,
            inputs=self.inputs,
            label=self.label,
            test_inputs=self.test_inputs,
            test_label=self.test_label,
            owner=self.owner,
            channels=self.channels,
        )
        path = self.source()
        return FoundFiles(
            folder=path.parent,
            files=(path,),
            state=state_of((path,), choice),
            parse=partial(npz_file.parse, path, choice, SizeLimit(path=path, most_mb=self.most_mb)),
        )
