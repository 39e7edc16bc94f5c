"""CIFAR-10: the official archives of binary records or of pickles, as archive or unpacked, or a subset in shards.

Official records have the channels first, as networks need them; in shards, the channels come last.
"""

from __future__ import annotations

import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError
from testbed.common.progress_protocol import Progress
from testbed.learning.data.readers import data_file, pickled
from testbed.learning.data.readers.source import FoundFiles, Parsed, best

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
KNOWN: data_file.Known = {
    "cifar-10-binary.tar.gz": ("c32a1d4ab5d03f1284b67883e8d87530",),
    "cifar-10-python.tar.gz": ("c58f30108f718f92721af3b95e74349a",),
    "data_batch_1": ("c99cafc152244af753f735de768cd75f",),
    "data_batch_2": ("d4bba439e000b95fd0a9bffe97cbabec",),
    "data_batch_3": ("54ebc095f3ab1f0389bbae665268c751",),
    "data_batch_4": ("634d18415352ddfa80567beed471001a",),
    "data_batch_5": ("482c414d41f54cd18b22e5b47cb7c3cb",),
    "test_batch": ("40351d587109b95175f43aff81a1287e",),
}
_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_OFFICIAL = 10_000
"""Images in each official batch."""
_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")

Batch = tuple[npt.NDArray[Any], npt.NDArray[Any]]
Read = Callable[[bytes, Path], Batch]


def find(folder: Path) -> FoundFiles | None:
    """Return the files in the folder: unpacked ones first, because they are faster to read; shards last."""
    return best(
        (
            _unpacked(folder, ".bin", _records),
            _unpacked(folder, "", pickled.batch),
            _packed(folder / "cifar-10-binary.tar.gz", ".bin", _records),
            _packed(folder / "cifar-10-python.tar.gz", "", pickled.batch),
            _shards(folder),
        )
    )


def _records(content: bytes, path: Path) -> Batch:
    """Return images and labels of a batch of binary records: a label and the bytes of an image each."""
    if not content or len(content) % (1 + _PIXELS):
        raise data_file.damaged(
            path, f"has {len(content)} bytes, which is not a multiple of a record of {1 + _PIXELS} bytes"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + _PIXELS)
    return rows[:, 1:], rows[:, 0]


def _unpacked(folder: Path, ending: str, read: Read) -> FoundFiles | None:
    paths = tuple(folder / f"{name}{ending}" for name in _BATCHES)
    present = tuple(path for path in paths if path.is_file())
    if not present:
        return None

    def contents() -> Iterator[tuple[Path, bytes]]:
        for path in paths:
            data_file.check(path, KNOWN)
            yield path, data_file.unpacked(path)

    missing = tuple(path.name for path in paths if path not in present)
    return FoundFiles(folder=folder, files=present, missing=missing, parse=partial(_parse, contents, read))


def _packed(archive: Path, ending: str, read: Read) -> FoundFiles | None:
    if not archive.is_file():
        return None

    def contents() -> Iterator[tuple[Path, bytes]]:
        data_file.check(archive, KNOWN)
        wanted = {f"{name}{ending}" for name in _BATCHES}
        for name, content in sorted(_members(archive, wanted).items()):  # data_batch_1 … 5, test_batch
            yield archive / name, content

    return FoundFiles(folder=archive.parent, files=(archive,), parse=partial(_parse, contents, read))


def _members(archive: Path, wanted: set[str]) -> dict[str, bytes]:
    """Return the wanted files of the archive by name, without writing anything to disk."""
    found = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() else None
                name = Path(member.name).name
                if file is not None and name in wanted:
                    found[name] = file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise data_file.damaged(archive, f"cannot be unpacked ({error})") from None
    if wanted - set(found):
        raise data_file.damaged(archive, f"does not contain {', '.join(sorted(wanted - set(found)))}")
    return found


def _parse(contents: Callable[[], Iterator[tuple[Path, bytes]]], read: Read, progress: Progress) -> Parsed:
    progress.start("reading CIFAR-10", 0, len(_BATCHES))
    paths, images, labels = [], [], []
    for number, (path, content) in enumerate(contents(), 1):
        rows, classes = read(content, path)
        paths.append(path)
        images.append(data_file.check_images(path, rows, (_PIXELS,)).reshape(-1, *_SHAPE))
        labels.append(data_file.check_labels(path, classes, len(rows), len(CLASSES)))
        progress.start("reading CIFAR-10", number, len(_BATCHES))
    _check_counts(paths, [len(rows) for rows in images])
    return _parsed(images[:-1], labels[:-1], images[-1:], labels[-1:])


def _check_counts(paths: list[Path], counts: list[int]) -> None:
    """Refuse training batches of different length: a batch that ends between two records is noticed only here.

    A user's subset may have shorter batches of equal length, and a test batch of any length.
    """
    training = counts[:-1]
    usual = Counter(training).most_common(1)[0][0]
    for number, count in enumerate(training):
        if count != usual:
            others = ", ".join(map(str, sorted({*training[:number], *training[number + 1 :]})))
            raise data_file.damaged(paths[number], f"has {count} images, but the other training batches have {others}")
    if usual == _OFFICIAL != counts[-1]:
        raise data_file.damaged(paths[-1], f"has {counts[-1]} images, but the training batches have {usual} each")


def _shards(folder: Path) -> FoundFiles | None:
    parts = {part: tuple(sorted(folder.glob(f"{part}_x_[0-9][0-9].npy.xz"))) for part in ("train", "test")}
    labels = {part: folder / f"{part}_labels.npz" for part in parts}
    present = [path for part in parts for path in (*parts[part], labels[part]) if path.is_file()]
    if not present:
        return None
    missing = [name for part, paths in parts.items() for name in _gaps(part, paths)]
    missing += [path.name for path in labels.values() if not path.is_file()]
    parse = partial(_parse_shards, parts, labels)
    return FoundFiles(folder=folder, files=tuple(present), missing=tuple(missing), parse=parse)


def _shard(part: str, number: int) -> str:
    return f"{part}_x_{number:02}.npy.xz"


def _gaps(part: str, paths: tuple[Path, ...]) -> list[str]:
    """Return the names of shards that are missing before the last one."""
    if not paths:
        return [f"{_shard(part, 0)} …"]
    present = {path.name for path in paths}
    last = int(paths[-1].name.removeprefix(f"{part}_x_")[:2])
    return [name for number in range(last) if (name := _shard(part, number)) not in present]


def _parse_shards(parts: dict[str, tuple[Path, ...]], labels: dict[str, Path], progress: Progress) -> Parsed:
    images: dict[str, list[npt.NDArray[Any]]] = {"train": [], "test": []}
    classes: dict[str, list[npt.NDArray[Any]]] = {}
    total, done = sum(map(len, parts.values())), 0
    for part, paths in parts.items():
        for path in paths:
            progress.start(f"reading {path.name}", done, total)
            pixels = data_file.check_images(path, data_file.npy_xz(path), (*_SHAPE[1:], _SHAPE[0]))
            images[part].append(pixels.transpose(0, 3, 1, 2))
            done += 1
        names, samples = data_file.npz(labels[part], ("y",))["y"], sum(map(len, images[part]))
        if names.ndim == 1 and len(names) > samples:  # the labels show that a shard at the end is missing
            problem = f"{labels[part].name} has {len(names)} labels, but the shards before it have {samples} images"
            absent = labels[part].with_name(_shard(part, len(paths)))
            raise UserError(f"{absent}: is missing: {problem}; put it there, or get a new copy of all shards")
        classes[part] = [data_file.check_labels(labels[part], names, samples, len(CLASSES))]
    return _parsed(images["train"], classes["train"], images["test"], classes["test"])


def _parsed(*lists: list[npt.NDArray[Any]]) -> Parsed:
    names = ("train_inputs", "train_targets", "test_inputs", "test_targets")
    arrays = {name: np.concatenate(pieces) for name, pieces in zip(names, lists, strict=True)}
    return Parsed(arrays=arrays, classes=CLASSES)
