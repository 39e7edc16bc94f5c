"""Reads a CSV: the first line names the columns, each other line is a sample.

Numbers are kept as float32 in blocks of rows, categories as their numbers until all rows are read: only then is it
known how many columns each of them becomes (one-hot). A second file may contain the test samples; both share names of
classes, owners and categories.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError
from testbed.common.files.text_lines import numbered_lines
from testbed.common.progress_protocol import Progress
from testbed.learning.data.own_files import label_checks
from testbed.learning.data.own_files.csv_columns import CsvChoice, CsvColumns, Missing, columns_of
from testbed.learning.data.own_files.numbered_texts import NumberedTexts
from testbed.learning.data.own_files.size_limit import SizeLimit
from testbed.learning.data.readers.source import Parsed

_BLOCK = 4_096
_MOST_CATEGORIES = 1_000
"""Of one column: more are rather names or times than categories."""
_REPORTED_LINES = 20_000
_SMALLER = "use fewer columns (task.features) or fewer lines"


def parse(train: Path, test: Path | None, choice: CsvChoice, limit: SizeLimit, progress: Progress) -> Parsed:
    """Return the samples of a CSV, and those of a second one for testing. Raises UserError with file and line."""
    shared: dict[str, NumberedTexts] = {}
    parts = {"train": _Samples(train, choice, shared, limit)}
    if test is not None:
        parts["test"] = _Samples(test, choice, shared, limit)
    for part in parts.values():
        part.read(progress)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, part in parts.items():
        arrays[f"{name}_inputs"] = part.inputs()
        arrays[f"{name}_targets"] = part.values() if choice.is_value else part.numbers(choice.label)
        if choice.owner is not None:
            arrays[f"{name}_owners"] = part.numbers(choice.owner)
    classes = () if choice.is_value else shared[choice.label].names()
    if classes:
        where = f"{train}, column {choice.label!r}"
        label_checks.check_classes(where, classes, arrays["train_targets"])
        if test is not None:
            label_checks.check_test_classes(where, classes, arrays["train_targets"], arrays["test_targets"])
    return Parsed(arrays=arrays, classes=classes, owners=() if choice.owner is None else shared[choice.owner].names())


class _Samples:
    """The samples of one file."""

    def __init__(self, path: Path, choice: CsvChoice, shared: dict[str, NumberedTexts], limit: SizeLimit) -> None:
        """``shared``: column → its texts, which all files have in common."""
        self._path, self._choice, self._shared, self._limit = path, choice, shared, limit
        self._columns: CsvColumns
        self._blocks: list[npt.NDArray[np.float32]] = []
        self._texts: list[npt.NDArray[np.int32]] = []
        self._samples = 0

    def read(self, progress: Progress) -> None:
        numbers: list[list[float]] = []
        texts: list[list[int]] = []
        lines: list[int] = []
        skipped = 0
        rows = self._rows(progress)
        _, header = next(rows, (1, None))
        if header is None:
            raise UserError(f"{self._path}: is empty; its first line must name the columns")
        self._columns = columns_of(self._path, header, self._choice)
        named = [self._shared.setdefault(self._columns.names[place], NumberedTexts()) for place in self._columns.texts]
        for line, cells in rows:
            where = f"{self._path}, line {line}"
            if len(cells) != len(header):
                raise UserError(f"{where}: has {len(cells)} cells, and the header has {len(header)}: correct it")
            try:
                found, words = self._columns.read_numbers(where, cells), self._columns.read_texts(cells)
            except Missing as missing:
                if not self._choice.skip_missing:
                    raise UserError(
                        f"{where}: has no value in column {str(missing)!r}; fill it in, remove the line, or leave out"
                        " all such lines by task.missing = 'skip'"
                    ) from None
                skipped += 1
                continue
            numbers.append(found)
            texts.append([every.number(word) for every, word in zip(named, words, strict=True)])
            lines.append(line)
            if len(lines) == _BLOCK:
                self._keep(numbers, texts, lines)
        self._keep(numbers, texts, lines)
        if not self._samples:
            raise UserError(f"{self._path}: has no samples below its header; add some")
        if skipped:
            progress.show(f"{self._path}: {skipped:,} lines without all values are left out")

    def _rows(self, progress: Progress) -> Iterator[tuple[int, list[str]]]:
        """Yield number and cells of each line that is not blank."""
        reader = csv.reader(self._lines(progress), delimiter=self._choice.delimiter, strict=True)
        try:
            yield from ((reader.line_num, cells) for cells in reader if cells)
        except csv.Error as error:
            raise UserError(f"{self._path}, line {reader.line_num}: {error}; correct it") from None

    def _lines(self, progress: Progress) -> Iterator[str]:
        done, total = 0, self._path.stat().st_size
        for number, line in numbered_lines(self._path, encoding="utf-8-sig", errors="surrogateescape"):
            if not line.isascii():
                try:
                    done += len(line.encode())
                except UnicodeEncodeError:
                    problem = "is not UTF-8; convert the file, as by iconv -f latin1 -t utf-8"
                    raise UserError(f"{self._path}, line {number}: {problem}") from None
            else:
                done += len(line)
            if number % _REPORTED_LINES == 1:
                progress.start(f"reading {self._path.name}", done, max(total, done))
            yield line

    def _keep(self, numbers: list[list[float]], texts: list[list[int]], lines: list[int]) -> None:
        """Move rows into arrays. Raises UserError if a number is not finite or too large for single precision."""
        if not lines:
            return
        with np.errstate(over="ignore"):
            block = np.array(numbers, np.float64).reshape(len(lines), -1).astype(np.float32)
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            row, column = bad[0]
            name = self._columns.names[self._columns.numbers[column]]
            problem = f"is {numbers[row][column]:g}; a number must be finite, and below 3e38: correct it"
            raise UserError(f"{self._path}, line {lines[row]}: column {name!r} {problem}")
        self._blocks.append(block)
        self._texts.append(np.array(texts, np.int32).reshape(len(lines), -1))
        self._samples += len(lines)
        categories = {name: len(self._shared[name]) for name in self._choice.one_hot}
        for name, count in categories.items():
            if count > _MOST_CATEGORIES:
                problem = f"has more than {_MOST_CATEGORIES:,} different texts by line {lines[-1]}"
                raise UserError(
                    f"{self._path}: column {name!r} {problem}; leave it out: list the others in task.features"
                )
        width = block.shape[1] + sum(categories.values())
        self._limit.check(4 * self._samples * width + self._texts[0].shape[1] * 4 * self._samples, _SMALLER)
        for rows in (numbers, texts, lines):
            rows.clear()

    def inputs(self) -> npt.NDArray[np.float32]:
        """Return the features, with a column for each category."""
        columns, choice = self._columns, self._choice
        widths = [
            len(self._shared[name]) if (name := columns.names[place]) in choice.one_hot else 1
            for place in columns.features
        ]
        made = np.zeros((self._samples, sum(widths)), np.float32)
        for place, width, end in zip(columns.features, widths, np.cumsum(widths), strict=True):
            name = columns.names[place]
            if name in choice.one_hot:
                made[np.arange(self._samples), end - width + self.numbers(name)] = 1.0
            else:
                made[:, end - 1] = self._number_column(place)
        return made

    def values(self) -> npt.NDArray[np.float32]:
        """Return the label, which is a number to predict."""
        return self._number_column(self._columns.label)

    def numbers(self, name: str) -> npt.NDArray[np.int64]:
        """Return the place of each text of a column among its sorted texts."""
        at = self._columns.texts.index(self._columns.names.index(name))
        return self._shared[name].places(np.concatenate([block[:, at] for block in self._texts]))

    def _number_column(self, place: int) -> npt.NDArray[np.float32]:
        at = self._columns.numbers.index(place)
        return np.concatenate([block[:, at] for block in self._blocks])
