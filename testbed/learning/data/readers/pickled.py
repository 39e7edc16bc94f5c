"""Safe reading of CIFAR-10's pickles: extends testbed/common/files/unpickle.py by arrays of bytes."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.files import unpickle
from testbed.learning.data.readers import data_file

_BYTES = 2**28
"""Memory limit for one batch: its bytes as string and as bytes, its labels and file names."""


def batch(content: bytes, path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return images (one row of bytes each) and labels of a batch. Raises UserError, which names ``path``."""
    with unpickle.limited(_BYTES):
        try:
            table = _Arrays(io.BytesIO(content), path).load()
        except unpickle.MALFORMED as error:
            raise data_file.damaged(path, f"is not a pickle of images: {error or type(error).__name__}") from None
    # keys may be strings or bytes, depending on the version of Python that wrote the file
    named = {_text(key): value for key, value in table.items()} if isinstance(table, dict) else {}
    data, labels = named.get("data"), named.get("labels")
    if not isinstance(data, _Array) or not isinstance(labels, list):
        raise data_file.damaged(path, "is a pickle without data and labels")
    try:
        return data.values, np.array(labels, dtype=np.int64)
    except (AttributeError, ValueError, TypeError, OverflowError):
        raise data_file.damaged(path, "is a pickle whose data are not bytes or whose labels are not numbers") from None


def _text(key: object) -> object:
    return key.decode("latin1") if isinstance(key, bytes) else key


class _Array:
    """Replaces an array. It accepts only the state of an array of bytes in row order."""

    __slots__ = ("values",)
    values: npt.NDArray[Any]

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, data = state
        content = data.encode("latin1") if isinstance(data, str) else data
        if dtype.format != "B" or by_columns or not isinstance(content, bytes) or math.prod(shape) != len(content):
            raise ValueError("an array is not of bytes in row order")
        self.values = np.frombuffer(content, np.uint8).reshape(shape)


class _Reconstruct:
    """Replaces numpy.core.multiarray._reconstruct; its arguments are not needed."""

    __slots__ = ()

    def __call__(self, kind: object, shape: object, code: object) -> _Array:
        return _Array()


class _Kind:
    """Replaces numpy.ndarray, which pickles name but do not call."""

    __slots__ = ()


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): _Kind(),
}


class _Arrays(unpickle.Restricted):
    def find_class(self, module: str, name: str) -> Any:
        found = _STAND_INS.get((module, name))
        return super().find_class(module, name) if found is None else found
