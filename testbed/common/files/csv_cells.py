"""Text in cells of CSV files that a spreadsheet must not take for a formula.

A spreadsheet computes a cell that begins with ``=``, ``+``, ``-`` or ``@``, also after a tab or the end of a line: a
device named ``=HYPERLINK(…)`` in somebody else's trace would become a link. Such a text gets an apostrophe in front,
which marks text. Numbers stay as they are. A text that looks as if it had such a mark gets one, too, so that reading
returns what was written.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import TextIO

_FORMULA = r"[=+\-@\t\r\n]"
_TO_MARK, _MARKED = re.compile(f"'*{_FORMULA}"), re.compile(f"'+{_FORMULA}")


def cell(value: object) -> object:
    """Return a value as it is written."""
    return f"'{value}" if isinstance(value, str) and _TO_MARK.match(value) else value


def value(text: str) -> str:
    """Return a text as it was before it was written."""
    return text[1:] if _MARKED.match(text) else text


_END = "\r\n"


class _LineFeeds:
    """Ends lines by a line feed. The csv module quotes a carriage return within a cell only if lines end with one."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(f"{line.removesuffix(_END)}\n")


class CsvWriter:
    """Writes rows as lines of a CSV file."""

    def __init__(self, file: TextIO) -> None:
        self._writer = csv.writer(_LineFeeds(file), lineterminator=_END)

    def row(self, values: Iterable[object]) -> None:
        self._writer.writerow([cell(each) for each in values])

    def rows(self, rows: Iterable[Iterable[object]]) -> None:
        self._writer.writerows([cell(each) for each in values] for values in rows)
