"""Reads a folder that Hugging Face's ``datasets`` has saved (``save_to_disk``), without a network.

The package is an extra, and is imported here only. It maps files that the folder names, so names that lead elsewhere
are refused first. Images are decoded by our own limits, not by the package, which would also fetch one that is an
address: a column in which it would decode them is refused by its type.

This may be the process of a user's notebook, so the package is not told to be offline: it would be for the user, too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError, nearest
from testbed.common.files.regular_file import read_at_most
from testbed.common.progress_protocol import Progress
from testbed.learning.data.own_files import label_checks
from testbed.learning.data.own_files.array_samples import as_inputs, as_values
from testbed.learning.data.own_files.image_decoding import ImageShape, decoded
from testbed.learning.data.own_files.numbered_texts import NumberedTexts
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed

T = TypeVar("T")

INSTALL = "pip install 'edgebed[hf]'"
_MOST_JSON = 64 << 20
_PIECE = 512
_ARRAYS = ("Array2D", "Array3D", "Array4D", "List", "LargeList", "Sequence")
_NUMBERS = ("int", "uint", "float", "bool")
_SMALLER = "save fewer samples, set a smaller task.size, or task.colours = 'grey'"


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceChoice:
    """What a task says about columns and splits."""

    label: str
    is_value: bool
    features: tuple[str, ...]
    owner: str | None
    train: str
    test: str
    images: ImageShape
    channels: str


class _DataFile(msgspec.Struct):
    filename: str


class _State(msgspec.Struct):
    """The fields of state.json that are needed here."""

    data_files: list[_DataFile] = msgspec.field(name="_data_files")


class _Splits(msgspec.Struct):
    splits: list[str]


def files_of(folder: Path) -> list[Path]:
    """Return all files of a saved folder, in order. Raises UserError for links, and for names that lead elsewhere."""
    if not folder.is_dir():
        problem = "is no folder" if folder.exists() else "there is no such folder"
        raise UserError(f"{folder}: {problem}; task.folder is relative to the profile")
    if (folder / "dataset_dict.json").is_file():
        names = _json(folder / "dataset_dict.json", _Splits).splits
        parts = [_inside(folder, name) for name in names]
        return [folder / "dataset_dict.json", *(file for part in parts for file in _files_of_one(part))]
    return _files_of_one(folder)


def _files_of_one(folder: Path) -> list[Path]:
    if not (folder / "state.json").is_file():
        raise UserError(f"{folder}: has no state.json; name a folder that dataset.save_to_disk(…) has written")
    named = [_inside(folder, file.filename) for file in _json(folder / "state.json", _State).data_files]
    if not named:
        raise UserError(f"{folder}: is empty; save some samples")
    found = [folder / "state.json", folder / "dataset_info.json", *named]
    for file in found:
        if file.is_symlink() or not file.is_file():
            raise UserError(f"{file}: is missing, or a link; save the data set again (save_to_disk)")
    return found


def _inside(folder: Path, name: str) -> Path:
    if not name or name in (".", "..") or "/" in name or "\0" in name or (folder / name).is_symlink():
        raise UserError(f"{folder}: names {name!r}, which is not in this folder; save the data set again")
    return folder / name


def _json(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(read_at_most(path, _MOST_JSON), type=kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(f"{path}: is damaged ({error}); save the data set again (save_to_disk)") from None


def parse(folder: Path, choice: HuggingFaceChoice, limit: SizeLimit, progress: Progress) -> Parsed:
    """Return the samples of a saved data set. Raises UserError with folder, split and column."""
    parts = _loaded(folder, choice)
    arrays: dict[str, npt.NDArray[Any]] = {}
    classes, owners, words = NumberedTexts(), NumberedTexts(), {}
    used = 0
    for part, dataset in parts.items():
        where = (
            f"{folder}, split {choice.train if part == 'train' else choice.test!r}" if len(parts) > 1 else f"{folder}"
        )
        reading = _Reading(where, dataset, choice, limit, progress, used)
        arrays[f"{part}_inputs"] = reading.inputs()
        used += arrays[f"{part}_inputs"].nbytes
        if choice.is_value:
            arrays[f"{part}_targets"] = as_values(reading.place(choice.label), np.asarray(reading.column(choice.label)))
        else:
            words[f"{part}_targets"] = [classes.number(text) for text in reading.texts(choice.label)]
        if choice.owner is not None:
            words[f"{part}_owners"] = [owners.number(text) for text in reading.texts(choice.owner)]
    for kind, numbers in words.items():
        arrays[kind] = (owners if kind.endswith("_owners") else classes).places(numbers)
    if not choice.is_value:
        where = f"{folder}, column {choice.label!r}"
        label_checks.check_classes(where, classes.names(), arrays["train_targets"])
        if "test_targets" in arrays:
            label_checks.check_test_classes(where, classes.names(), arrays["train_targets"], arrays["test_targets"])
    return Parsed(arrays=arrays, classes=() if choice.is_value else classes.names(), owners=owners.names())


def _loaded(folder: Path, choice: HuggingFaceChoice) -> dict[str, Any]:
    """Return the data sets for training and testing; only the first if there is one part."""
    try:
        import datasets
    except ImportError as error:
        raise UserError(f"{folder}: the task huggingface needs the package datasets ({error}): {INSTALL}") from None
    try:
        found = datasets.load_from_disk(str(folder))
    except Exception as error:  # noqa: BLE001  a damaged folder makes nearly every error
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{folder}: cannot be loaded ({reason}); save the data set again (save_to_disk)") from None
    if not isinstance(found, datasets.DatasetDict):
        return {"train": found}
    if choice.train not in found:
        raise UserError(
            f"{folder}: has no split {choice.train!r}; set task.train_split; {nearest(choice.train, found)}"
        )
    parts = {"train": found[choice.train]}
    return parts | ({"test": found[choice.test]} if choice.test in found else {})


class _Reading:
    """Reads columns of one data set."""

    def __init__(
        self,
        where: str,
        dataset: Any,
        choice: HuggingFaceChoice,
        limit: SizeLimit,
        progress: Progress,
        used: int,
    ) -> None:
        """``used``: bytes of the arrays so far."""
        self._where, self._dataset, self._choice = where, dataset, choice
        self._limit, self._progress, self._used = limit, progress, used
        if not len(dataset):
            raise UserError(f"{where}: is empty; save some samples")
        for name in (choice.label, *choice.features, *([choice.owner] if choice.owner else [])):
            if name not in dataset.features:
                raise UserError(f"{where}: there is no column {name!r}; {nearest(name, dataset.features)}")

    def place(self, column: str) -> str:
        return f"{self._where}, column {column!r}"

    def column(self, name: str) -> list[Any]:
        feature = self._dataset.features[name]
        if type(feature).__name__ not in ("Value", "ClassLabel"):
            raise UserError(f"{self.place(name)}: is {feature}; it must be a number, a text or a ClassLabel")
        found = self._dataset.with_format(None).select_columns([name])[:][name]
        if any(value is None for value in found):
            sample = found.index(None)
            raise UserError(f"{self.place(name)}: sample {sample} has no value; fill it in, or leave it out")
        return list(found)

    def texts(self, name: str) -> list[str]:
        """Return labels or owners as texts: the names of a ClassLabel."""
        values, feature = self.column(name), self._dataset.features[name]
        names = getattr(feature, "names", None)
        if names is not None:
            bad = [number for number in values if not 0 <= number < len(names)]
            if bad:
                raise UserError(f"{self.place(name)}: has the label {bad[0]}; it must be in 0 to {len(names) - 1}")
            return [names[number] for number in values]
        if values and isinstance(values[0], str):
            return values
        array = np.asarray(values)
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            raise UserError(f"{self.place(name)}: is {feature}; it must be a number, a text or a ClassLabel")
        return label_checks.of_numbers(self.place(name), array)

    def inputs(self) -> npt.NDArray[Any]:
        names = self._choice.features or tuple(
            name for name in self._dataset.features if name not in (self._choice.label, self._choice.owner)
        )
        kinds = {name: type(self._dataset.features[name]).__name__ for name in names}
        if len(names) == 1 and kinds[names[0]] == "Image":
            return self._images(names[0])
        if len(names) == 1 and kinds[names[0]] in _ARRAYS:
            return as_inputs(self.place(names[0]), self._stacked(names[0]), self._choice.channels)
        if not names:
            raise UserError(f"{self._where}: has no column besides label and owner; a sample needs a feature")
        for name in names:
            feature = self._dataset.features[name]
            if kinds[name] != "Value" or not feature.dtype.startswith(_NUMBERS):
                raise UserError(
                    f"{self.place(name)}: is {feature}; inputs are one column of images or arrays, or columns of"
                    " numbers: list them in task.features"
                )
        self._limit.check(self._used + 4 * len(self._dataset) * len(names), _SMALLER)
        columns = [as_values(self.place(name), np.asarray(self.column(name))) for name in names]
        return np.stack(columns, axis=1)

    def _pieces(self, dataset: Any, name: str) -> Iterator[tuple[int, Any]]:
        for start in range(0, len(dataset), _PIECE):
            self._progress.start(f"reading {name}", start, len(dataset))
            yield start, dataset[start : start + _PIECE][name]

    def _stacked(self, name: str) -> npt.NDArray[Any]:
        feature = self._dataset.features[name]
        kind = _kind_of_items(feature)
        if not kind.startswith(_NUMBERS):
            raise UserError(f"{self.place(name)}: is {feature}; arrays and lists must be of numbers")
        chosen = self._dataset.select_columns([name]).with_format("numpy")
        made: npt.NDArray[Any] | None = None
        is_bytes = kind == "uint8"  # the package converts them to larger numbers
        for start, piece in self._pieces(chosen, name):
            for place, sample in enumerate(piece, start):
                array = np.asarray(sample, np.uint8) if is_bytes else np.asarray(sample)
                if array.dtype.kind not in "biuf":
                    raise UserError(f"{self.place(name)}: sample {place} has no numbers, or rows of different lengths")
                if made is None:
                    self._limit.check(self._used + array.nbytes * len(chosen), _SMALLER)
                    made = np.empty((len(chosen), *array.shape), array.dtype)
                if array.shape != made.shape[1:]:
                    shapes = f"has the shape {array.shape}, and sample 0 {made.shape[1:]}"
                    raise UserError(f"{self.place(name)}: sample {place} {shapes}; all must be equal")
                made[place] = array
        assert made is not None
        return made

    def _images(self, name: str) -> npt.NDArray[np.uint8]:
        import datasets

        chosen = self._dataset.select_columns([name]).cast_column(name, datasets.Image(decode=False)).with_format(None)
        made: npt.NDArray[np.uint8] | None = None
        for start, piece in self._pieces(chosen, name):
            for place, sample in enumerate(piece, start):
                where = f"{self.place(name)}, sample {place}"
                if not sample or not sample.get("bytes"):
                    raise UserError(f"{where}: has no image in it; save the images with the data set")
                pixels = decoded(where, io.BytesIO(sample["bytes"]), self._choice.images)
                if made is None:
                    self._limit.check(self._used + pixels.nbytes * len(chosen), _SMALLER)
                    made = np.empty((len(chosen), *pixels.shape), np.uint8)
                if pixels.shape != made.shape[1:]:
                    raise UserError(f"{where}: has another size than sample 0; give the side of all by task.size")
                made[place] = pixels
        assert made is not None
        return made


def _kind_of_items(feature: Any) -> str:
    """Return the type of what an array or a list contains, however deep."""
    while (inner := getattr(feature, "feature", None)) is not None:
        feature = inner
    return str(getattr(feature, "dtype", ""))
