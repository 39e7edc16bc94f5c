"""The digest of a data set: whether two runs have the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.files.content_hash import content_hash
from testbed.learning.data.dataset import DataSet


def data_digest(data: DataSet) -> str:
    """Return the SHA-256 of the samples: of the files, or of the arrays.

    Inputs that are made when they are needed do not count: a transform may make others each time.
    """
    if data.sha256:
        return data.sha256
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, part in (("train", data.train), ("test", data.test)):
        arrays[f"{name} targets"] = np.ascontiguousarray(part.targets)
        if isinstance(part.inputs, np.ndarray):
            arrays[f"{name} inputs"] = part.inputs
        if part.owners is not None:
            arrays[f"{name} owners"] = np.ascontiguousarray(part.owners)
    return content_hash({}, arrays, arrays.__getitem__)
