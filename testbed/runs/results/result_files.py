"""Reading and writing of result files: structs as JSON, rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO, TypeVar

import msgspec

from testbed.common.errors import UnreadableFile
from testbed.runs.results.columns import Row, as_cells, column_names, from_cells
from testbed.runs.results.summary import SCHEMA

T = TypeVar("T", bound=msgspec.Struct)
REMEDY = "restore it, or delete it to do without it"


class _Numbered(msgspec.Struct):
    """Any result file, of this version or of a newer one."""

    schema: int = 0


def read_struct(path: Path, kind: type[T]) -> T | None:
    """The struct in a JSON file; None if there is no such file. Raises UnreadableFile."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}; {REMEDY}") from None
    try:
        number = msgspec.json.decode(data, type=_Numbered).schema
        if number > SCHEMA:
            raise UnreadableFile(
                f"{path}: schema {number}, of a newer version of Edgebed; this one reads up to {SCHEMA}: update it"
            )
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise UnreadableFile(f"{path}: is not a {path.name} of a run: {error}; {REMEDY}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableFile(f"{path}: is not complete, or damaged: {error}; {REMEDY}") from None


def read_rows(path: Path, kind: type[Row]) -> list[Row] | None:
    """The rows of a CSV file; None if there is no such file. Raises UnreadableFile."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
        if not text.endswith("\n"):
            raise csv.Error("its last line has no end")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        return [from_cells(kind, _complete(cells)) for cells in reader]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}; {REMEDY}") from None
    except (msgspec.ValidationError, csv.Error, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path}: is not complete, or not a {path.name} of a run: {error}; {REMEDY}") from None


def _complete(cells: dict[str, str]) -> dict[str, str]:
    """The cells of a line; DictReader marks missing and surplus ones by None. Raises csv.Error if there are any."""
    if None in cells or None in cells.values():
        raise csv.Error("a line has more or fewer cells than the first line")
    return cells


def csv_text(kind: type[Row], rows: Iterable[Row]) -> str:
    """The rows as a CSV file; an unknown value is an empty cell."""
    text = io.StringIO(newline="")
    write_csv(text, kind, rows)
    return text.getvalue()


def write_csv(file: TextIO, kind: type[Row], rows: Iterable[Row]) -> None:
    """Write the rows as a CSV file, one by one if their columns are known; an unknown value is an empty cell."""
    writer = csv.writer(file, lineterminator="\n")
    if list(kind.__struct_fields__) == column_names(kind):
        writer.writerow(kind.__struct_fields__)
        writer.writerows(map(msgspec.structs.astuple, rows))
        return
    cells = [as_cells(row) for row in rows]
    columns = list(dict.fromkeys([*column_names(kind), *(name for row in cells for name in row)]))
    writer.writerow(columns)
    writer.writerows([row.get(name) for name in columns] for row in cells)
