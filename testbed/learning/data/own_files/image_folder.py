"""Reads a folder of images: each subfolder is a class; or ``train`` and ``test``, with a subfolder for each class.

Links are refused: what they lead to may change, or be anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError
from testbed.common.files.regular_file import open_regular
from testbed.common.progress_protocol import Progress
from testbed.learning.data.own_files import label_checks
from testbed.learning.data.own_files.image_decoding import ImageShape, decoded
from testbed.learning.data.own_files.numbered_texts import in_order
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed

_ENDINGS = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".pgm", ".ppm", ".pnm", ".tif", ".tiff"))
_IGNORED = frozenset(("thumbs.db", "desktop.ini"))
_MOST_FILES = 5_000_000
_REPORTED_FILES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFiles:
    """The images of a folder: part → class → files."""

    folder: Path
    parts: dict[str, dict[str, list[Path]]]

    def files(self) -> Iterator[Path]:
        for part in self.parts.values():
            for images in part.values():
                yield from images


def find(folder: Path) -> ImageFiles:
    """Return the images of a folder in a fixed order. Raises UserError."""
    if not folder.is_dir():
        problem = "is no folder" if folder.exists() else "there is no such folder"
        raise UserError(f"{folder}: {problem}; task.folder is relative to the profile")
    names = [entry.name for entry in _entries(folder)]
    if "train" in names and set(names) <= {"train", "test"}:
        return ImageFiles(folder=folder, parts={name: _classes(folder / name) for name in sorted(names, reverse=True)})
    return ImageFiles(folder=folder, parts={"train": _classes(folder)})


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, without hidden files. Raises UserError for links and unprintable names."""
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not _is_ignored(entry.name)]
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None
    for entry in entries:
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            raise UserError(f"{folder}: the name of {os.fsencode(entry.name)!r} is not UTF-8; rename it") from None
        if entry.is_symlink():
            raise UserError(f"{entry.path}: is a link, which is not followed; replace it by what it leads to")
    return sorted(entries, key=lambda entry: entry.name)


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name.lower() in _IGNORED


def _classes(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for entry in _entries(folder):
        if not entry.is_dir():
            problem = "is a file; a folder of images has a subfolder for each class, with its images"
            raise UserError(f"{entry.path}: {problem}: move it into one, or remove it")
        found[entry.name] = _images(folder / entry.name)
        if sum(map(len, found.values())) > _MOST_FILES:
            raise UserError(f"{folder}: has more than {_MOST_FILES:,} images; use a part of them")
    if not found:
        raise UserError(f"{folder}: is empty; it needs a subfolder for each class, with its images")
    return {name: found[name] for name in in_order(found)}


def _images(folder: Path) -> list[Path]:
    images = []
    for entry in _entries(folder):
        place = folder / entry.name
        if entry.is_dir():
            raise UserError(f"{place}: is a folder in that of a class; put its images there, or remove it")
        if place.suffix.lower() not in _ENDINGS:
            raise UserError(f"{place}: is no image by its name ({', '.join(sorted(_ENDINGS))}); remove it")
        images.append(place)
    if not images:
        raise UserError(f"{folder}: has no images; add some, or remove the folder")
    return images


def parse(found: ImageFiles, shape: ImageShape, limit: SizeLimit, progress: Progress) -> Parsed:
    """Decode all images. Raises UserError with the file."""
    classes = tuple(found.parts["train"])
    unknown = [name for part in found.parts.values() for name in part if name not in classes]
    if unknown:
        where = found.folder / "test" / unknown[0]
        raise UserError(f"{where}: there is no training folder of this class; add one, or remove it")
    decoding = _Decoding(found, shape, limit, progress)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, part in found.parts.items():
        files = [file for images in part.values() for file in images]
        arrays[f"{name}_inputs"] = decoding.images(files)
        counts = [len(part.get(each, ())) for each in classes]
        arrays[f"{name}_targets"] = np.repeat(np.arange(len(classes), dtype=np.int64), counts)
    label_checks.check_classes(str(found.folder), classes, arrays["train_targets"])
    return Parsed(arrays=arrays, classes=classes)


class _Decoding:
    """Decodes files into arrays that are made at once: the first image says how large all are."""

    def __init__(self, found: ImageFiles, shape: ImageShape, limit: SizeLimit, progress: Progress) -> None:
        self._shape, self._progress, self._folder = shape, progress, found.folder
        first = next(found.files())
        self._first, self._pixels = first, self._decoded(first).shape
        self._total, self._done = sum(1 for _ in found.files()), 0
        limit.check(self._total * int(np.prod(self._pixels)), "set a smaller task.size, or task.colours = 'grey'")

    def images(self, files: list[Path]) -> npt.NDArray[np.uint8]:
        made = np.empty((len(files), *self._pixels), np.uint8)
        for place, file in enumerate(files):
            pixels = self._decoded(file)
            if pixels.shape != self._pixels:
                (_, height, width), (_, first_height, first_width) = pixels.shape, self._pixels
                raise UserError(
                    f"{file}: has {width} × {height} pixels, and {self._first.name} has {first_width} × {first_height};"
                    " give the side of all by task.size"
                )
            made[place] = pixels
            self._done += 1
            if self._done % _REPORTED_FILES == 1:
                self._progress.start(f"decoding images of {self._folder.name}", self._done, self._total)
        return made

    def _decoded(self, file: Path) -> npt.NDArray[np.uint8]:
        try:
            with open_regular(file) as opened:
                return decoded(str(file), opened, self._shape)
        except OSError as error:
            raise UserError(f"{file}: cannot be read: {error.strerror}") from None
