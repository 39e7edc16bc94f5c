"""FEMNIST: LEAF's handwritten characters by writer, as LEAF's JSON or as arrays made from it.

The stored bytes are black on white, as in LEAF; mean and deviation of the data set invert them.
"""

from __future__ import annotations

import string
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.common.progress_protocol import Progress
from testbed.learning.data.readers import data_file, leaf
from testbed.learning.data.readers.source import FoundFiles, Parsed, best

CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
_ARRAYS = "femnist_leaf_sub.npz"
_SIDE = 28


class _Samples(msgspec.Struct):
    x: list[list[float]]
    y: list[int]


def find(folder: Path) -> FoundFiles | None:
    path = folder / _ARRAYS
    arrays = FoundFiles(folder=folder, files=(path,), parse=partial(_parse_arrays, path)) if path.is_file() else None
    return best((leaf.find(folder, _parse_json), arrays))


def _parse_arrays(path: Path, progress: Progress) -> Parsed:
    progress.start(f"reading {path.name}")
    found = data_file.npz(path, ("x", "y", "writer", "split", "writer_ids"))
    images = data_file.check_images(path, found["x"], (_SIDE, _SIDE)).reshape(-1, 1, _SIDE, _SIDE)
    labels = data_file.check_labels(path, found["y"], len(images), len(CLASSES))
    names = tuple(map(str, np.atleast_1d(found["writer_ids"])))
    writers, split = found["writer"], found["split"]
    if writers.shape != labels.shape or writers.dtype.kind not in "iu" or not _within(writers, len(names)):
        raise data_file.damaged(path, f"its array writer is not a list of {len(labels)} positions in writer_ids")
    if split.shape != labels.shape or set(np.unique(split)) != {0, 1}:
        raise data_file.damaged(path, f"its array split is not a list of {len(labels)} numbers 0 (train) and 1 (test)")
    arrays: dict[str, npt.NDArray[Any]] = {}
    for number, part in enumerate(leaf.PARTS):
        chosen = split == number
        arrays[f"{part}_inputs"], arrays[f"{part}_targets"] = images[chosen], labels[chosen]
        arrays[f"{part}_owners"] = writers[chosen].astype(np.int32)
    return Parsed(arrays=arrays, classes=CLASSES, owners=names)


def _within(numbers: npt.NDArray[Any], count: int) -> bool:
    return bool(numbers.min() >= 0 and numbers.max() < count)


def _parse_json(parts: leaf.Parts, progress: Progress) -> Parsed:
    numbers: dict[str, int] = {}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for part, paths in parts.items():
        images, labels, owners = [], [], []
        for path, user, samples in leaf.samples(paths, _Samples, progress):
            if not samples.x and not samples.y:
                continue  # after LEAF's split, a user with few samples may have none in one part
            labels.append(_labels(path, user, samples))
            images.append(_images(path, user, samples.x))
            owners.append(np.full(len(samples.x), numbers.setdefault(user, len(numbers)), np.int32))
        if not images:
            raise data_file.damaged(paths[0], f"there are no samples in {part}")
        for name, pieces in (("inputs", images), ("targets", labels), ("owners", owners)):
            arrays[f"{part}_{name}"] = np.concatenate(pieces)
    return Parsed(arrays=arrays, classes=CLASSES, owners=tuple(numbers))


def _labels(path: Path, user: str, samples: _Samples) -> npt.NDArray[np.uint8]:
    try:
        classes = np.array(samples.y, np.int64)
    except OverflowError:
        raise data_file.damaged(path, f"a label of user {user!r} is not in 0 to {len(CLASSES) - 1}") from None
    return data_file.check_labels(f"{path}: user {user!r}", classes, len(samples.x), len(CLASSES))


def _images(path: Path, user: str, rows: list[list[float]]) -> npt.NDArray[np.uint8]:
    """Return the images as bytes: LEAF divided them by 255, and rounding restores them exactly."""
    if any(len(row) != _SIDE * _SIDE for row in rows):
        raise data_file.damaged(path, f"an image of user {user!r} does not have {_SIDE * _SIDE} pixels")
    values = np.array(rows, np.float64)
    if values.min() < 0 or values.max() > 1:
        raise data_file.damaged(path, f"a pixel of user {user!r} is not between 0 and 1")
    return np.rint(values * 255).astype(np.uint8).reshape(-1, 1, _SIDE, _SIDE)
