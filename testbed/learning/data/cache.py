"""A cache of parsed data sets: arrays on disk, which all processes map into memory and share.

A data set is parsed once for each state of its files: their paths, sizes and modification times (and how a user's own
files are read) are the name of the cache folder. The folder is written under a temporary name and renamed, so that it
is never incomplete; if two runs parse at the same time, the result of the second is discarded. Lengths and checksums
are verified whenever the folder is opened; a damaged one is built again.

When arrays are written, other arrays of the same data set are removed if they have not been opened for a week. So a
user can alternate between two folders, and old arrays do not fill the disk. A run that has them open is not affected:
a mapped file exists until it is unmapped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError
from testbed.common.files.content_hash import content_hash
from testbed.common.progress_protocol import Progress
from testbed.learning.data import folders
from testbed.learning.data.readers.source import FoundFiles, Parsed

_VERSION = 1
_INDEX = "index.json"
_CHUNK = 1 << 22
_ATTEMPTS = 3
_KEPT_SECONDS = 7 * 86_400


class _Entry(msgspec.Struct, frozen=True):
    bytes: int
    crc32: int


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    sources: list[str]
    arrays: dict[str, _Entry]
    classes: list[str]
    owners: list[str]
    sha256: str = ""
    """A digest of arrays and names; empty in folders of earlier versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A data set in the cache. Its arrays are memory-mapped and read-only."""

    arrays: dict[str, npt.NDArray[Any]]
    classes: tuple[str, ...]
    owners: tuple[str, ...]
    sha256: str
    """Of arrays and names."""


class _Damaged(Exception):
    """Arrays in the cache differ from what was written."""


def stored(name: str, found: FoundFiles, progress: Progress) -> Stored:
    """Return the arrays of these files. Parses the files if the cache has no arrays, or damaged ones."""
    base = folders.arrays()
    folder = base / f"{name}-{_fingerprint(found)}"
    try:
        for _ in range(_ATTEMPTS):  # another run may remove the folder that this one has just repaired
            try:
                return _open(folder, progress)
            except FileNotFoundError:
                _build(folder, name, found, progress)
            except _Damaged as damage:
                progress.show(f"{folder}: {damage}; the data set is read from its files again")
                _discard(folder)
    except OSError as error:
        problem = f"arrays of {name} cannot be stored here: {error.strerror or error}"
        raise UserError(f"{base}: {problem}; free disk space, or set XDG_CACHE_HOME to another folder") from None
    raise UserError(
        f"{folder}: was damaged {_ATTEMPTS} times in a row; check the disk, or set XDG_CACHE_HOME to another one"
    )


def _fingerprint(found: FoundFiles) -> str:
    digest = hashlib.sha256(f"{_VERSION}\n".encode())
    for path in found.files:
        try:
            status = path.stat()
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="surrogateescape"))
    digest.update(found.state.encode())
    return digest.hexdigest()[:16]


def _open(folder: Path, progress: Progress) -> Stored:
    """Raises FileNotFoundError if the folder does not exist, and _Damaged if a file in it is missing or wrong."""
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    try:
        index = msgspec.json.decode((folder / _INDEX).read_bytes(), type=_Index)
    except FileNotFoundError:
        raise _Damaged(f"{_INDEX} is missing") from None
    except msgspec.MsgspecError as error:
        raise _Damaged(f"{_INDEX} is damaged ({error})") from None
    for file, entry in index.arrays.items():
        progress.start(f"checking {folder.name}")
        _verify(folder / file, entry)
    arrays = {Path(file).stem: _mapped(folder / file) for file in index.arrays}
    with contextlib.suppress(OSError):  # a shared cache may be read-only; then nothing is removed from it either
        os.utime(folder / _INDEX)
    return Stored(
        arrays=arrays,
        classes=tuple(index.classes),
        owners=tuple(index.owners),
        sha256=index.sha256 or _sha256(arrays, index.classes, index.owners),
    )


def _sha256(arrays: Mapping[str, npt.NDArray[Any]], classes: Sequence[str], owners: Sequence[str]) -> str:
    texts = {"classes": json.dumps(list(classes)), "owners": json.dumps(list(owners))}
    return content_hash(texts, arrays, arrays.__getitem__)


def _verify(path: Path, entry: _Entry) -> None:
    try:
        size = path.stat().st_size
        if size != entry.bytes:
            raise _Damaged(f"{path.name} has {size} bytes instead of {entry.bytes}")
        if _crc32(path) != entry.crc32:
            raise _Damaged(f"{path.name} has a wrong checksum")
    except FileNotFoundError:
        raise _Damaged(f"{path.name} is missing") from None


def _crc32(path: Path) -> int:
    found, buffer = 0, memoryview(bytearray(_CHUNK))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            found = zlib.crc32(buffer[:count], found)
    return found


def _mapped(path: Path) -> npt.NDArray[Any]:
    """Return a plain array over the mapped file: np.memmap itself is slower at every access."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _build(folder: Path, name: str, found: FoundFiles, progress: Progress) -> None:
    parsed = _parsed(found, progress)
    progress.start(f"writing {folder.name}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        _write(draft, found, parsed)
        _rename(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _remove_old(name, folder)


def _parsed(found: FoundFiles, progress: Progress) -> Parsed:
    try:
        return found.parse(progress)
    except OSError as error:  # a problem of the source, not of the cache
        raise UserError(f"{error.filename or found.files[0]}: cannot be read: {error.strerror or error}") from None


def _write(draft: Path, found: FoundFiles, parsed: Parsed) -> None:
    entries = {}
    for name, array in parsed.arrays.items():
        path = draft / f"{name}.npy"
        with path.open("wb") as file:
            np.save(file, np.ascontiguousarray(array), allow_pickle=False)
            _flush(file)
        entries[path.name] = _Entry(path.stat().st_size, _crc32(path))
    index = _Index(
        version=_VERSION,
        sources=[os.fsencode(path).decode(errors="replace") for path in found.files],
        arrays=entries,
        classes=list(parsed.classes),
        owners=list(parsed.owners),
        sha256=_sha256(parsed.arrays, parsed.classes, parsed.owners),
    )
    with (draft / _INDEX).open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(index)) + b"\n")
        _flush(file)
    _flush_folder(draft)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(draft: Path, folder: Path) -> None:
    draft.chmod(0o755)  # mkdtemp permits only the owner, but a cache may be shared
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        return  # another run was faster; its arrays are verified when they are opened
    _flush_folder(folder.parent)


def _discard(folder: Path) -> None:
    """Rename the folder before removing it, so that no other process finds a part of it."""
    away = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        with contextlib.suppress(FileNotFoundError):  # another run has already removed it
            folder.rename(away / folder.name)
    finally:
        shutil.rmtree(away, ignore_errors=True)


def _remove_old(name: str, folder: Path) -> None:
    """Remove arrays of this data set that have not been opened for a week, and drafts of runs that were killed."""
    now = (folder / _INDEX).stat().st_mtime if (folder / _INDEX).is_file() else 0.0
    for other in (*folder.parent.glob(f"{name}-*"), *folder.parent.glob(f".{name}-*")):
        with contextlib.suppress(FileNotFoundError):  # another run has removed it
            index = other / _INDEX
            used = (index if index.is_file() else other).stat().st_mtime
            if other != folder and now - used > _KEPT_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
