"""Reading and writing of result files: structs as JSON, rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO, TypeVar

import msgspec

from testbed.common.errors import UnreadableFile, UserError
from testbed.common.files import csv_cells
from testbed.common.files.csv_cells import CsvWriter
from testbed.common.files.regular_file import read_at_most
from testbed.runs.results.columns import Row, as_cells, column_names, from_cells
from testbed.runs.results.summary import SCHEMA

T = TypeVar("T", bound=msgspec.Struct)
_MOST_JSON_BYTES, _MOST_CSV_BYTES = 256 << 20, 2 << 30
"""Far more than the files of the longest runs: a line for each of 10,000 devices, or of ten million versions."""
REMEDY = "restore it, or delete it to do without it"


class _Numbered(msgspec.Struct):
    """Any result file, of this version or of a newer one."""

    schema: int = 0


def read_struct(path: Path, kind: type[T]) -> T | None:
    """The struct in a JSON file; None if there is no such file. Raises UnreadableFile."""
    try:
        data = read_at_most(path, _MOST_JSON_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}; {REMEDY}") from None
    except UserError as error:
        raise UnreadableFile(f"{error}; {REMEDY}") from None
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
        text = read_at_most(path, _MOST_CSV_BYTES).decode()
        if not text.endswith("\n"):
            raise csv.Error("its last line has no end")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        return [from_cells(kind, _complete(cells)) for cells in reader]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}; {REMEDY}") from None
    except UserError as error:
        raise UnreadableFile(f"{error}; {REMEDY}") from None
    except (msgspec.ValidationError, csv.Error, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path}: is not complete, or not a {path.name} of a run: {error}; {REMEDY}") from None


def _complete(cells: dict[str, str]) -> dict[str, str]:
    """The values in a line; DictReader marks missing and surplus ones by None. Raises csv.Error if there are any."""
    if None in cells or None in cells.values():
        raise csv.Error("a line has more or fewer cells than the first line")
    return {csv_cells.value(name): csv_cells.value(text) for name, text in cells.items()}


def csv_text(kind: type[Row], rows: Iterable[Row]) -> str:
    """The rows as a CSV file; an unknown value is an empty cell."""
    text = io.StringIO(newline="")
    write_csv(text, kind, rows)
    return text.getvalue()


def write_csv(file: TextIO, kind: type[Row], rows: Iterable[Row]) -> None:
    """Write the rows as a CSV file, one by one if their columns are known; an unknown value is an empty cell."""
    writer = CsvWriter(file)
    if list(kind.__struct_fields__) == column_names(kind):
        writer.row(kind.__struct_fields__)
        writer.rows(map(msgspec.structs.astuple, rows))
        return
    cells = [as_cells(row) for row in rows]
    columns = list(dict.fromkeys([*column_names(kind), *(name for row in cells for name in row)]))
    writer.row(columns)
    writer.rows([row.get(name) for name in columns] for row in cells)
