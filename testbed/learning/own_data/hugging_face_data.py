"""A folder that Hugging Face's ``datasets`` has saved: ``Dataset`` or ``DatasetDict``, by ``save_to_disk``."""

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
class HuggingFaceData(OwnData):
    """The keys of a saved Hugging Face data set."""

    kind: ClassVar[str] = "huggingface"
    folder: str = param(meaning="folder that save_to_disk has written; path relative to the profile")
    label: str = param("label", "name of the column with the label")
    features: tuple[str, ...] = param(
        (), "columns of the inputs: one of images or arrays, or several of numbers; empty: all others"
    )
    owner: str | None = param(None, "column that says whose a sample is, for the split natural; it is no feature")
    train_split: str = param("train", "of several splits, that with the training samples")
    test_split: str = param(
        "test", "of several splits, that with the test samples; if there is none, a share is held out"
    )
    size: int | None = param(
        None, "height and width to which images are scaled; unset: all have the same size", at_least=1, at_most=4_096
    )
    colours: str = param("rgb", "of images. rgb: three channels; grey: one", choices=("rgb", "grey"))
    channels: str = param(
        "auto", "where an array of an image has its channels; as for npz", choices=("auto", "first", "last")
    )
    model: str = network_among(_NETWORKS)

    def source(self) -> Path:
        return Path(self.folder)

    def paths(self) -> Mapping[str, str | None]:
        return {"folder": self.folder}

    def found(self) -> FoundFiles:
        from testbed.learning.data.own_files import hugging_face
        from testbed.learning.data.own_files.file_state import state_of
        from testbed.learning.data.own_files.image_decoding import ImageShape
        from testbed.learning.data.own_files.size_limit import SizeLimit
        from testbed.learning.data.readers.source import FoundFiles

        choice = hugging_face.HuggingFaceChoice(
            label=self.label,
            is_value=self.is_value,
            features=self.features,
            owner=self.owner,
            train=self.train_split,
            test=self.test_split,
            images=ImageShape(size=self.size, grey=self.colours == "grey"),
            channels=self.channels,
        )
        folder = self.source()
        files = hugging_face.files_of(folder)
        return FoundFiles(
            folder=folder,
            files=tuple(files),
            state=state_of(files, choice),
            parse=partial(hugging_face.parse, folder, choice, SizeLimit(path=folder, most_mb=self.most_mb)),
        )
