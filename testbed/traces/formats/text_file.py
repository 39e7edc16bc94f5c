"""Lines and rows of text files from other sources."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from testbed.common.errors import UserError
from testbed.common.files.text_lines import numbered_lines


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, without the line end."""
    # only numbers and column names are used: another encoding does not matter
    for number, line in numbered_lines(path, encoding="utf-8-sig", errors="replace"):
        yield number, line.rstrip("\r\n")


def rows(path: Path, needed: tuple[str, ...], layout: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield number and cells of each row of a CSV. Raises UserError if a column of ``needed`` is missing."""
    numbered = lines(path)
    header = [name.strip() for name in next(csv.reader([next(numbered, (1, ""))[1]]), [])]
    missing = [name for name in needed if name not in header]
    if missing:
        raise UserError(
            f"{path}, line 1: the header {','.join(header)!r} has no column {missing[0]!r}; it must be {layout}"
        )
    for number, line in numbered:
        if not line.strip():
            continue
        cells = next(csv.reader([line]))
        if len(cells) < len(header):
            problem = f"has {len(cells)} cells, but the header has {len(header)}"
            raise UserError(
                f"{path}, line {number}: {problem}; if the file is incomplete, remove the line or get a new copy"
            )
        yield number, {name: value.strip() for name, value in zip(header, cells, strict=False)}


def stem(path: Path) -> str:
    """Return the name of a file without its suffixes."""
    name = path.name.removesuffix(".gz")
    for ending in (".csv", ".txt", ".log", ".json", ".pkl", ".pickle", ".down", ".up", ".dat"):
        name = name.removesuffix(ending)
    return name or path.name
