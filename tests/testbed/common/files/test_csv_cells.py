"""A spreadsheet takes no text of a CSV file for a formula, and reading returns what was written."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.files import csv_cells
from testbed.common.files.csv_cells import CsvWriter


@pytest.mark.parametrize(
    ("written", "cell"),
    [
        ("=SUM(A1)", "'=SUM(A1)"),
        ("+1", "'+1"),
        ("-2", "'-2"),
        ("@x", "'@x"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("'=1", "''=1"),
        ("rpi4-1", "rpi4-1"),
        ("'quoted'", "'quoted'"),
        ("", ""),
    ],
)
def test_a_text_that_looks_like_a_formula_gets_an_apostrophe(written: str, cell: str) -> None:
    assert csv_cells.cell(written) == cell
    assert csv_cells.value(cell) == written


def test_all_tables_are_written_by_it() -> None:
    root = Path(__file__).parents[4]
    files = [path for room in ("testbed", "aggregator", "devices") for path in (root / room).rglob("*.py")]
    users = [path.name for path in files if re.search(r"csv\.(Dict)?[wW]riter", path.read_text(encoding="utf-8"))]
    assert users == ["csv_cells.py"]


@pytest.mark.parametrize("number", [-1, -0.5, float("-inf"), None, True])
def test_numbers_stay_numbers(number: object) -> None:
    assert csv_cells.cell(number) is number


def test_numbers_are_read_as_they_were_written() -> None:
    assert [csv_cells.value(text) for text in ("-0.5", "+1e-3", "-inf")] == ["-0.5", "+1e-3", "-inf"]


@given(st.lists(st.text(st.sampled_from("'=+-@\t\r\n,;\"ab"), max_size=6), min_size=2, max_size=4))
def test_reading_returns_what_was_written_and_no_cell_begins_a_formula(texts: list[str]) -> None:
    file = io.StringIO(newline="")
    CsvWriter(file).rows([texts])
    [cells] = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert [csv_cells.value(cell) for cell in cells] == texts
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))]
