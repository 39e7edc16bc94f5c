"""Tables of results: as dictionaries of columns, as rows, as HTML, and as CSV files."""

from __future__ import annotations

import csv
import sys
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from testbed.common.errors import UserError
from testbed.runs.results.columns import Columns, as_cells, column_names
from testbed.runs.results.result_files import csv_text, read_rows
from testbed.runs.results.table_rows import DeviceRow, MetricRow, RoundRow, VersionRow

ALWAYS = ["time_s", "host_s", "version", "joules", "bytes"]


def scored(number: int, joules: float | None = None, **scores: float) -> MetricRow:
    return MetricRow(time_s=1.5 * number, host_s=3.0 * number, version=number, joules=joules, bytes=7, scores=scores)


VALUES = {"int": 3, "float": 0.1 + 0.2, "str": 'a "b", ü'}


def hints(kind: type[msgspec.Struct]) -> dict[str, list[str]]:
    """Column → the names of its types: ``["float", "NoneType"]``."""
    found = {name: hint for name, hint in typing.get_type_hints(kind).items() if name != "scores"}
    return {
        name: [getattr(part, "__name__", "") for part in (*typing.get_args(hint), hint)] for name, hint in found.items()
    }


def filled(kind: type[Any], **changes: object) -> Any:
    """A row with a value in each column."""
    found = {name: next(VALUES[part] for part in parts if part in VALUES) for name, parts in hints(kind).items()}
    return kind(**found | changes)


# ---- a dictionary


def test_a_table_is_a_dictionary_of_columns_with_its_rows() -> None:
    rows = [scored(1, accuracy=0.5), scored(2, joules=4.0, accuracy=0.75, loss=1.25)]
    table = Columns(MetricRow, iter(rows))
    assert isinstance(table, dict)
    assert table.rows == tuple(rows)
    assert list(table) == [*ALWAYS, "accuracy", "loss"]
    assert (table["version"], table["accuracy"]) == ([1, 2], [0.5, 0.75])
    assert (table["joules"], table["loss"]) == ([None, 4.0], [None, 1.25])  # unknown values
    assert {len(column) for column in table.values()} == {2}
    assert dict(**table) == table
    assert ("nothing" in table, table.get("nothing")) == (False, None)


@pytest.mark.parametrize("kind", [MetricRow, VersionRow, DeviceRow, RoundRow])
def test_a_table_without_rows_has_its_columns(kind: type[msgspec.Struct]) -> None:
    table = Columns(kind, [])
    assert (list(table), table.rows) == (column_names(kind), ())
    assert set(map(tuple, table.values())) == {()}


def test_a_metric_with_the_name_of_a_column_gets_a_prefix_and_replaces_nothing() -> None:
    table = Columns(MetricRow, [scored(2, bytes=9.0, version=5.0, perplexity=12.5)])
    assert list(table) == [*ALWAYS, "accuracy", "loss", "metric_bytes", "metric_version", "perplexity"]
    assert (table["bytes"], table["version"]) == ([7], [2])
    assert (table["metric_bytes"], table["metric_version"], table["perplexity"]) == ([9.0], [5.0], [12.5])
    assert (table["accuracy"], table["loss"]) == ([None], [None])
    assert as_cells(table.rows[0])["metric_bytes"] == 9.0


def test_a_metric_that_only_some_versions_have_is_unknown_in_the_others() -> None:
    table = Columns(MetricRow, [scored(1), scored(2, auc=0.5), scored(3)])
    assert table["auc"] == [None, 0.5, None]


# ---- in a notebook


def test_names_and_values_are_escaped_in_html() -> None:
    nasty = "<script>alert(1)</script>"
    table = Columns(MetricRow, [msgspec.structs.replace(scored(1), scores={nasty: 0.123456789})])
    page = table._repr_html_()
    assert "<script>" not in page
    assert "<th>&lt;script&gt;alert(1)&lt;/script&gt;</th>" in page
    assert "<td>0.123457</td>" in page
    assert "<td></td>" in page  # unknown
    device = Columns(DeviceRow, [filled(DeviceRow, device=nasty)])._repr_html_()
    assert "<script>" not in device
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in device


def test_a_long_table_is_shown_in_part() -> None:
    table = Columns(MetricRow, [scored(number) for number in range(30)])
    page = table._repr_html_()
    assert page.count("<tr>") == 1 + 20
    assert page.endswith("<p>… and 10 more rows</p>")
    assert "more rows" not in Columns(MetricRow, [scored(number) for number in range(20)])._repr_html_()


def test_a_table_without_rows_is_shown() -> None:
    assert Columns(RoundRow, [])._repr_html_().endswith("<tbody></tbody></table>")


# ---- pandas


def test_without_pandas_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError) as caught:
        Columns(MetricRow, []).to_pandas()
    assert str(caught.value) == "to_pandas() needs pandas, which is not installed; install it: pip install pandas"


def test_pandas_gets_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda columns: (type(columns), columns)))
    table = Columns(MetricRow, [scored(1, accuracy=0.5)])
    made: object = table.to_pandas()
    assert made == (dict, dict(table))


# ---- CSV files


def round_trip(path: Path, kind: type[Any], rows: list[Any]) -> list[Any] | None:
    path.write_text(csv_text(kind, rows), encoding="utf-8", newline="")
    return read_rows(path, kind)


@pytest.mark.parametrize("kind", [MetricRow, VersionRow, DeviceRow, RoundRow])
def test_rows_are_read_back_from_a_csv_file_as_they_were_written(tmp_path: Path, kind: type[Any]) -> None:
    full = filled(kind)
    optional = [name for name, parts in hints(kind).items() if "NoneType" in parts]
    assert optional
    rows = [full, msgspec.structs.replace(full, **dict.fromkeys(optional)), full]
    assert round_trip(tmp_path / "table.csv", kind, rows) == rows
    assert round_trip(tmp_path / "table.csv", kind, []) == []


def test_metrics_of_any_name_are_read_back(tmp_path: Path) -> None:
    scores = {"accuracy": 0.5, "bytes": 7.0, "version": 3.0, "scores": 9.0, "time_s": -1e-9, 'F1, "macro"': 0.25}
    rows = [msgspec.structs.replace(scored(1), scores=scores), scored(2), scored(3, bytes=1.0)]
    assert round_trip(tmp_path / "metrics.csv", MetricRow, rows) == rows


def test_names_that_look_like_formulas_are_marked_and_read_back(tmp_path: Path) -> None:
    rows = [filled(DeviceRow, device='=HYPERLINK("x")'), filled(DeviceRow, device="'=1")]
    assert round_trip(tmp_path / "devices.csv", DeviceRow, rows) == rows
    with (tmp_path / "devices.csv").open(encoding="utf-8", newline="") as file:
        assert [row["device"] for row in csv.DictReader(file)] == ['\'=HYPERLINK("x")', "''=1"]
    scores = [scored(1, **{"=1+1": -0.5, "accuracy": -1e-9})]
    assert round_trip(tmp_path / "metrics.csv", MetricRow, scores) == scores
    head, cells = (tmp_path / "metrics.csv").read_text(encoding="utf-8").splitlines()
    assert (head.split(",")[-1], cells.split(",")[-1]) == ("'=1+1", "-0.5")


def test_a_file_that_does_not_exist_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "metrics.csv", MetricRow) is None


def test_columns_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "rounds.csv"
    row = filled(RoundRow)
    head, cells = csv_text(RoundRow, [row]).splitlines()
    path.write_text(f"{head},unheard\n{cells},5\n", encoding="utf-8")
    assert read_rows(path, RoundRow) == [row]
