"""Reading files that may be damaged: whatever is wrong with one is told with its name."""

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

from testbed.common.compressed import opened
from testbed.common.errors import UserError

Known = Mapping[str, tuple[str, ...]]
"""Checksums (md5) that files of these names may have."""
_UNREADABLE = (ValueError, KeyError, EOFError, OSError, MemoryError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def damaged(path: Path | str, problem: str) -> UserError:
    return UserError(f"{path}: {problem}; the file is damaged or another one: get it once more")


def check(path: Path, known: Known, otherwise: str = "") -> None:
    """Refuse a file that has the name of a known one, and not its checksum; ``otherwise``: how to bring another one."""
    allowed = known.get(path.name, ())
    if not allowed:
        return
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if found not in allowed:
        raise damaged(path, f"its md5 is {found}, and that of {path.name} is {' or '.join(allowed)}{otherwise}")


def unpacked(path: Path) -> bytes:
    """The whole file; what gzip packed, unpacked."""
    with opened(path) as file:
        return file.read()


def npz(path: Path, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """These arrays of the file. Its members have checksums of their own, which reading verifies."""
    try:
        with path.open("rb") as file:  # np.load leaves a file that it cannot read open
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise ValueError("it is one array")
            arrays = {name: found[name] for name in names}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                raise ValueError("what is called so is no array")  # numpy hands it out as bytes
            return arrays
    except _UNREADABLE as error:
        raise damaged(path, f"has no readable arrays {', '.join(names)} ({error})") from None


def npy_xz(path: Path) -> npt.NDArray[Any]:
    """An array that xz packed, which has a checksum of its own."""
    try:
        with lzma.open(path) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            rest = file.read(1)  # to the end: only there xz compares its checksum
    except _UNREADABLE as error:
        raise damaged(path, f"is no array packed by xz ({error or type(error).__name__})") from None
    if rest:
        raise damaged(path, "has bytes behind its array")
    return np.asarray(array)


def check_labels(path: Path | str, labels: npt.NDArray[Any], samples: int, classes: int) -> npt.NDArray[np.uint8]:
    """One label for each sample, and each that of a class."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise damaged(path, f"labels are {labels.dtype} of shape {labels.shape}; they must be a row of whole numbers")
    if len(labels) != samples:
        raise damaged(path, f"has {len(labels)} labels, and there are {samples} samples")
    if samples == 0:
        raise damaged(path, "has no samples")
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise damaged(path, f"label {labels[wrong[0]]} of sample {wrong[0]} is none of 0 to {classes - 1}")
    return labels.astype(np.uint8)


def check_images(path: Path | str, images: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Bytes of the shape that one sample has."""
    if images.dtype != np.uint8 or images.shape[1:] != shape:
        size = " × ".join(map(str, shape))
        raise damaged(path, f"images are {images.dtype} of shape {images.shape}; they must be bytes, N × {size}")
    return np.asarray(images)
