"""Reads a .npz that may be damaged or hostile: a zip file whose members are arrays.

A member is judged by its header before it is unpacked: Python objects (which numpy stores as pickles, that is, as
programs) are refused by their type, a header that promises another number of bytes than the member has is refused, and
so is a member that unpacks to more than the limit. zipfile never unpacks more than the size that was judged, if the
method is deflate; for bzip2 and LZMA, one read may unpack any number of bytes, so these are refused.
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError, nearest
from testbed.common.files.regular_file import open_regular
from testbed.common.progress_protocol import Progress
from testbed.learning.data.own_files import label_checks
from testbed.learning.data.own_files.array_samples import as_inputs, as_values
from testbed.learning.data.own_files.numbered_texts import NumberedTexts
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed

_PIECE = 1 << 22
_UNREADABLE = (
    ValueError,
    KeyError,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted member
    NotImplementedError,
    OverflowError,
    MemoryError,
    SyntaxError,  # headers are literals of Python
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_SMALLER = "store fewer samples, or smaller numbers (float32, uint8)"
_NAMES = (("x", "y"), ("x_train", "y_train"))
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""All that numpy writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpzChoice:
    """What a task says about the arrays."""

    is_value: bool
    inputs: str | None = None
    label: str | None = None
    test_inputs: str | None = None
    test_label: str | None = None
    owner: str | None = None
    channels: str = "auto"


def parse(path: Path, choice: NpzChoice, limit: SizeLimit, progress: Progress) -> Parsed:
    """Return the samples of a .npz. Raises UserError with file and array."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            reader = _Reader(path, archive, limit, progress)
            names = _names(path, choice, reader.members)
            found = {kind: reader.array(name) for kind, name in names.items()}
    except _UNREADABLE as error:
        raise UserError(f"{path}: is not a readable .npz file ({error}); get a new copy") from None
    return _parsed(path, choice, names, found)


def _names(path: Path, choice: NpzChoice, members: dict[str, zipfile.ZipInfo]) -> dict[str, str]:
    """Return the names of the arrays that are read, by what they are."""
    if choice.inputs or choice.label:
        names = {"train_inputs": choice.inputs or "x", "train_targets": choice.label or "y"}
        test = {"test_inputs": choice.test_inputs, "test_targets": choice.test_label}
    else:
        by_lower = {name.lower(): name for name in members}
        pair = next((pair for pair in _NAMES if all(name in by_lower for name in pair)), None)
        if pair is None:
            known = ", ".join(sorted(members)) or "nothing"
            raise UserError(
                f"{path}: has no arrays x and y, nor x_train and y_train (it has {known}); name them by task.inputs and"
                " task.label"
            )
        names = {"train_inputs": by_lower[pair[0]], "train_targets": by_lower[pair[1]]}
        test = {
            "test_inputs": choice.test_inputs or by_lower.get("x_test"),
            "test_targets": choice.test_label or by_lower.get("y_test"),
        }
    given = {kind: name for kind, name in test.items() if name is not None}
    if len(given) == 1:
        [kind] = given
        other = "task.test_label" if kind == "test_inputs" else "task.test_inputs"
        raise UserError(f"{path}: has test samples in {given[kind]} only, without their labels or inputs; name {other}")
    names |= given | ({"train_owners": choice.owner} if choice.owner else {})
    for name in names.values():
        if name not in members:
            raise UserError(f"{path}: there is no array {name!r}; {nearest(name, members)}")
    return names


class _Reader:
    """Reads judged members of a zip file."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, limit: SizeLimit, progress: Progress) -> None:
        self._path, self._archive, self._limit, self._progress = path, archive, limit, progress
        self._unpacked = 0
        entries = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        self.members = {info.filename.removesuffix(".npy"): info for info in entries}
        if len(self.members) != len(entries):
            raise UserError(f"{path}: has two arrays of one name; write it again")

    def array(self, name: str) -> npt.NDArray[Any]:
        info = self.members[name]
        where = f"{self._path}, array {name!r}"
        if info.compress_type not in _METHODS:
            problem = f"is compressed by method {info.compress_type} of zip files, and only 8 (deflate) is read"
            raise UserError(f"{where}: {problem}; write the file by numpy.savez or numpy.savez_compressed")
        self._unpacked += info.file_size
        self._limit.check(self._unpacked, _SMALLER)
        with self._archive.open(info) as member:
            shape, fortran, dtype, head = _header(member)
            if dtype.hasobject:
                raise UserError(
                    f"{where}: contains Python objects, which are not read because they are programs; store numbers or"
                    " texts: array.astype(float), or astype(str)"
                )
            if dtype.kind not in "biufUS" or dtype.itemsize == 0:
                raise UserError(f"{where}: is of type {dtype}; store numbers, or texts for labels")
            size = math.prod(shape) * dtype.itemsize
            if size != info.file_size - head:
                problem = f"its header promises {size:,} bytes, and it has {info.file_size - head:,}"
                raise UserError(f"{where}: {problem}; the file is damaged: get a new copy")
            content = self._content(member, name, size)
        array = np.frombuffer(content, dtype=dtype)
        return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)

    def _content(self, member: Any, name: str, size: int) -> bytearray:
        content = bytearray(size)
        place, view = 0, memoryview(content)
        while place < size:
            self._progress.start(f"reading {name} of {self._path.name}", place, size)
            piece = member.read(min(_PIECE, size - place))
            if not piece:
                raise EOFError(f"{name} ends after {place:,} bytes")
            view[place : place + len(piece)] = piece
            place += len(piece)
        if member.read(1):  # this also verifies the checksum
            raise EOFError(f"{name} has more bytes than its size")
        return content


def _header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and type of an array, and the length of its header. Raises ValueError."""
    start = io.BytesIO(member.read(1 << 16))
    version = np.lib.format.read_magic(start)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"arrays of version {version} are not read")
    shape, fortran, dtype = read(start)
    if any(not isinstance(length, int) or length < 0 for length in shape):
        raise ValueError(f"an array has the shape {shape}")
    member.seek(start.tell())
    return shape, fortran, dtype, start.tell()


def _parsed(path: Path, choice: NpzChoice, names: dict[str, str], found: dict[str, npt.NDArray[Any]]) -> Parsed:
    arrays: dict[str, npt.NDArray[Any]] = {}
    classes, owners, words = NumberedTexts(), NumberedTexts(), {}
    for kind, array in found.items():
        where = f"{path}, array {names[kind]!r}"
        if kind.endswith("_inputs"):
            arrays[kind] = as_inputs(where, array, choice.channels)
            continue
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            problem = f"has the shape {array.shape}; it must have one entry for each sample"
            raise UserError(f"{where}: {problem} (of one-hot labels, take argmax(axis=1))")
        of = names[f"{kind.partition('_')[0]}_inputs"]
        samples = len(found[f"{kind.partition('_')[0]}_inputs"])
        if len(array) != samples:
            raise UserError(f"{where}: has {len(array):,} entries for {samples:,} samples in {of!r}; each needs one")
        if kind.endswith("_targets") and choice.is_value:
            arrays[kind] = as_values(where, array)
        else:
            numbering = owners if kind.endswith("_owners") else classes
            words[kind] = [numbering.number(text) for text in label_checks.of_numbers(where, array)]
    for kind, numbers in words.items():
        arrays[kind] = (owners if kind.endswith("_owners") else classes).places(numbers)
    _check_parts(path, names, arrays)
    if not choice.is_value:
        where = f"{path}, array {names['train_targets']!r}"
        label_checks.check_classes(where, classes.names(), arrays["train_targets"])
        if "test_targets" in arrays:
            label_checks.check_test_classes(where, classes.names(), arrays["train_targets"], arrays["test_targets"])
    return Parsed(arrays=arrays, classes=() if choice.is_value else classes.names(), owners=owners.names())


def _check_parts(path: Path, names: dict[str, str], arrays: dict[str, npt.NDArray[Any]]) -> None:
    if "test_inputs" in arrays and arrays["test_inputs"].shape[1:] != arrays["train_inputs"].shape[1:]:
        shapes = [arrays[f"{part}_inputs"].shape[1:] for part in ("train", "test")]
        raise UserError(
            f"{path}, array {names['test_inputs']!r}: its samples have the shape {shapes[1]}, and those for training"
            f" {shapes[0]}; they must be equal"
        )
