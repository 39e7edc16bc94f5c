"""Reading of files that may be damaged. All functions raise UserError with the path."""

from __future__ import annotations

import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError
from testbed.common.files.compressed import opened

Known = Mapping[str, tuple[str, ...]]
"""File name → valid checksums (md5)."""
_UNREADABLE = (ValueError, KeyError, EOFError, OSError, MemoryError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def damaged(path: Path | str, problem: str) -> UserError:
    """Return the error for a file with wrong content."""
    return UserError(f"{path}: {problem}; the file is damaged, or it is not the right one: get a new copy")


def check(path: Path, known: Known, otherwise: str = "") -> None:
    """Refuse a file that has the name of a known one but another checksum; ``otherwise``: how to use other content."""
    allowed = known.get(path.name, ())
    if not allowed:
        return
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if found not in allowed:
        raise damaged(path, f"its md5 is {found} instead of {' or '.join(allowed)}{otherwise}")


def unpacked(path: Path) -> bytes:
    """Return the content of the file, decompressed."""
    with opened(path) as file:
        return file.read()


def npz(path: Path, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Return the named arrays of the file. Reading verifies the checksums of its members."""
    try:
        with path.open("rb") as file:  # np.load does not close a file that it cannot read
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            arrays = {name: found[name] for name in names}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                raise ValueError("a member is not an array")  # numpy returns it as bytes
            return arrays
    except _UNREADABLE as error:
        raise damaged(path, f"has no readable arrays {', '.join(names)} ({error})") from None


def npy_xz(path: Path) -> npt.NDArray[Any]:
    """Return an array that is compressed by xz."""
    try:
        with lzma.open(path) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            rest = file.read(1)  # xz verifies its checksum only at the end
    except _UNREADABLE as error:
        raise damaged(path, f"is not an array compressed by xz ({error or type(error).__name__})") from None
    if rest:
        raise damaged(path, "has extra bytes after its array")
    return np.asarray(array)


def check_labels(path: Path | str, labels: npt.NDArray[Any], samples: int, classes: int) -> npt.NDArray[np.uint8]:
    """Return the labels as bytes. Refuse them unless there is a valid one for each sample."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise damaged(path, f"labels are {labels.dtype} of shape {labels.shape}; they must be a list of whole numbers")
    if len(labels) != samples:
        raise damaged(path, f"has {len(labels)} labels for {samples} samples")
    if samples == 0:
        raise damaged(path, "has no samples")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise damaged(path, f"label {labels[wrong[0]]} of sample {wrong[0]} is not in 0 to {classes - 1}")
    return labels.astype(np.uint8)


def check_images(path: Path | str, images: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Return the images. Refuse them unless they are bytes and ``shape`` is that of each sample."""
    if images.dtype != np.uint8 or images.shape[1:] != shape:
        size = " × ".join(map(str, shape))
        raise damaged(path, f"images are {images.dtype} of shape {images.shape}; they must be bytes, N × {size}")
    return np.asarray(images)
