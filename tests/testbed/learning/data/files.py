"""Small files in the formats of the data sets, written by hand."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from testbed.learning.data.data_sources import SOURCES
from testbed.learning.data.readers import mnist

TRAIN, TEST = 7, 3


class RecordedProgress:
    """A progress that keeps its messages and steps."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.steps: list[tuple[str, int, int | None]] = []

    def start(self, what: str, done: int = 0, total: int | None = None) -> None:
        self.steps.append((what, done, total))

    def show(self, text: str) -> None:
        self.texts.append(text)


def idx(values: npt.NDArray[Any]) -> bytes:
    kind = 8 if values.dtype == np.uint8 else 12
    head = struct.pack(f">4B{values.ndim}I", 0, 0, kind, values.ndim, *values.shape)
    return head + values.astype(">u1" if kind == 8 else ">i4").tobytes()


def images(count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, 28, 28), np.uint8)


def labels(count: int) -> npt.NDArray[np.uint8]:
    return (np.arange(count) % 10).astype(np.uint8)


def digits() -> dict[str, bytes]:
    """Return the four uncompressed files of a tiny MNIST."""
    return {
        "train-images-idx3-ubyte": idx(images(TRAIN)),
        "train-labels-idx1-ubyte": idx(labels(TRAIN)),
        "t10k-images-idx3-ubyte": idx(images(TEST, 1)),
        "t10k-labels-idx1-ubyte": idx(labels(TEST)),
    }


def write(folder: Path, contents: dict[str, bytes], compressed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / (f"{name}.gz" if compressed else name)).write_bytes(gzip.compress(content) if compressed else content)
    return folder


def any_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept any checksum for MNIST's compressed files."""
    source = SOURCES["mnist"]
    monkeypatch.setitem(SOURCES, "mnist", replace(source, find=partial(mnist.find, {}, tuple("0123456789"))))


def records(count: int, seed: int = 0) -> bytes:
    """Return binary records of CIFAR-10."""
    rows = np.random.default_rng(seed).integers(0, 256, (count, 3073), np.uint8)
    rows[:, 0] = labels(count)
    return rows.tobytes()


def batches(ending: str = ".bin") -> dict[str, bytes]:
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    return {f"{name}{ending}": records(2, seed) for seed, name in enumerate(names)}


def archive(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"cifar-10-batches/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def leaf(path: Path, users: dict[str, tuple[list[Any], list[Any]]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {user: {"x": x, "y": y} for user, (x, y) in users.items()}
    path.write_text(
        json.dumps({"users": list(users), "num_samples": [len(x) for x, _ in users.values()], "user_data": data})
    )
    return path
