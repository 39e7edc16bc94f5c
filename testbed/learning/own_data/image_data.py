"""A folder of images: each subfolder is a class; or ``train`` and ``test``, with a subfolder for each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from testbed.common.parameters import ParameterError, param
from testbed.learning.own_data.own_data import IMAGE_NETWORKS, OwnData, network_among

if TYPE_CHECKING:
    from testbed.learning.data.readers.source import FoundFiles


@dataclass(kw_only=True)
class ImageData(OwnData):
    """The keys of a folder of images."""

    kind: ClassVar[str] = "images"
    folder: str = param(
        meaning="folder with a subfolder for each class, or with train and test; path relative to the profile"
    )
    size: int | None = param(
        None, "height and width to which images are scaled; unset: all have the same size", at_least=1, at_most=4_096
    )
    colours: str = param("rgb", "rgb: three channels; grey: one", choices=("rgb", "grey"))
    model: str = network_among(IMAGE_NETWORKS)

    def source(self) -> Path:
        return Path(self.folder)

    def paths(self) -> Mapping[str, str | None]:
        return {"folder": self.folder}

    def byte_unit(self) -> float:
        return 255.0

    def check_keys(self) -> None:
        if self.is_value:
            raise ParameterError("target", "is value; the folder of an image is a class: leave it out")
        super().check_keys()

    def found(self) -> FoundFiles:
        from testbed.learning.data.own_files import image_folder
        from testbed.learning.data.own_files.file_state import state_of
        from testbed.learning.data.own_files.image_decoding import ImageShape
        from testbed.learning.data.own_files.size_limit import SizeLimit
        from testbed.learning.data.readers.source import FoundFiles

        files = image_folder.find(self.source())
        shape = ImageShape(size=self.size, grey=self.colours == "grey")
        limit = SizeLimit(path=self.source(), most_mb=self.most_mb)
        return FoundFiles(
            folder=self.source(),
            files=(self.source(),),
            state=state_of(files.files(), shape),
            parse=partial(image_folder.parse, files, shape, limit),
        )
