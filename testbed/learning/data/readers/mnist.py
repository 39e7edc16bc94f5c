"""MNIST and Fashion-MNIST: four idx files, plain or compressed; for MNIST, also the writers of the digits (QMNIST)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.progress_protocol import Progress
from testbed.learning.data.readers import data_file, idx
from testbed.learning.data.readers.source import FoundFiles, Parsed

_KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")
_NAMES = tuple(f"{part}-{kind}" for part in ("train", "t10k") for kind in _KINDS)
_WRITERS = "qmnist_writers.npz"
_QMNIST = ("qmnist-train-labels-idx2-int.gz", "qmnist-test-labels-idx2-int.gz")
_SIDE = 28
_OTHERWISE = " (to use other data, decompress the file: plain idx files may contain anything)"
_WRITER_COLUMN = 2


def find(known: data_file.Known, classes: tuple[str, ...], folder: Path) -> FoundFiles | None:
    """Return the four files in the folder; for each, the compressed one is preferred.

    Compressed files must have known checksums. Plain files may have any size, so that users can provide a part of the
    data, or other data.
    """
    paths = {name: _either(folder, name) for name in _NAMES}
    present = tuple(path for path in paths.values() if path is not None)
    if not present:
        return None
    writers = _writers_in(folder)
    missing = tuple(f"{name}.gz" for name, path in paths.items() if path is None)
    wanted = () if writers else tuple(name for name in _QMNIST if name in known and not (folder / name).is_file())
    parse = partial(_parse, known, classes, present, writers)
    return FoundFiles(folder=folder, files=present + writers, missing=missing, lacking=wanted, parse=parse)


def _either(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)


def _writers_in(folder: Path) -> tuple[Path, ...]:
    if (folder / _WRITERS).is_file():
        return (folder / _WRITERS,)
    both = tuple(folder / name for name in _QMNIST)
    return both if all(path.is_file() for path in both) else ()


def _parse(
    known: data_file.Known,
    classes: tuple[str, ...],
    paths: tuple[Path, ...],
    writers: tuple[Path, ...],
    progress: Progress,
) -> Parsed:
    arrays: dict[str, npt.NDArray[Any]] = {}
    for number, part in enumerate(("train", "test")):
        images, labels = paths[2 * number : 2 * number + 2]
        progress.start(f"reading {images.name}", number, 2)
        data_file.check(images, known, _OTHERWISE)
        data_file.check(labels, known, _OTHERWISE)
        inputs = data_file.check_images(images, idx.read(images, idx.BYTES, 3), (_SIDE, _SIDE))
        arrays[f"{part}_inputs"] = inputs.reshape(-1, 1, _SIDE, _SIDE)
        arrays[f"{part}_targets"] = data_file.check_labels(
            labels, idx.read(labels, idx.BYTES, 1), len(inputs), len(classes)
        )
    if not writers:
        return Parsed(arrays=arrays, classes=classes)
    for path in writers:
        data_file.check(path, known)
    owners = _numbered(arrays, _by_npz(writers[0], arrays) if len(writers) == 1 else _by_qmnist(writers, arrays))
    return Parsed(arrays=arrays, classes=classes, owners=owners)


def _by_npz(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    found = data_file.npz(path, ("train_writer", "test_writer"))
    for part in ("train", "test"):
        writers, samples = found[f"{part}_writer"], len(arrays[f"{part}_targets"])
        if writers.shape != (samples,) or writers.dtype.kind not in "iu":
            raise data_file.damaged(
                path, f"{part}_writer is not a list of {samples} whole numbers, one for each {part} image"
            )
    return [found["train_writer"], found["test_writer"]]


def _by_qmnist(paths: tuple[Path, ...], arrays: dict[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Return the writers of MNIST's images: QMNIST has more test images, but MNIST's come first."""
    found = []
    for part, path in zip(("train", "test"), paths, strict=True):
        labels, rows = arrays[f"{part}_targets"], idx.read(path, idx.INTS, 2)
        if len(rows) < len(labels) or rows.shape[1] <= _WRITER_COLUMN:
            raise data_file.damaged(path, f"its shape is {rows.shape}, but there are {len(labels)} images in {part}")
        wrong = np.flatnonzero(rows[: len(labels), 0] != labels)
        if len(wrong):
            raise data_file.damaged(
                path, f"row {wrong[0]} is for a {rows[wrong[0], 0]}, but image {wrong[0]} is a {labels[wrong[0]]}"
            )
        found.append(rows[: len(labels), _WRITER_COLUMN])
    return found


def _numbered(arrays: dict[str, npt.NDArray[Any]], writers: list[npt.NDArray[Any]]) -> tuple[str, ...]:
    """Add the writers of both parts as numbers from 0, and return their names, which are NIST's numbers."""
    names, numbers = np.unique(np.concatenate(writers), return_inverse=True)
    arrays["train_owners"], arrays["test_owners"] = np.split(numbers.astype(np.int32), [len(writers[0])])
    return tuple(str(name) for name in names)
