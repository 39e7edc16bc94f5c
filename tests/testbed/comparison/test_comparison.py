"""A comparison as a value: its parts, its JSON, its tables and columns, and its figures."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from testbed.comparison import compare_figures, compare_files
from testbed.comparison.comparison import Comparison
from testbed.comparison.interval import Interval
from tests.testbed.comparison.written import BYTES, compared, comparison_of, read, six, write


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return six(tmp_path)


@pytest.fixture
def comparison(folders: list[Path]) -> Comparison:
    return comparison_of(*folders, target=0.6)


def test_a_comparison_has_typed_parts(comparison: Comparison, folders: list[Path]) -> None:
    assert (comparison.metric, comparison.lower, comparison.target_is) == ("accuracy", False, "given")
    fast, slow = comparison.groups
    assert (slow.label, slow.strategy, slow.runs, slow.seeds, slow.reached) == ("fedavg", "fedavg", 3, (1, 2, 3), 2)
    assert fast.values["seconds_to_target"] == Interval(count=3, mean=4.0, half=0.0, low=4.0, high=4.0)
    assert list(fast.values) == [quantity.key for quantity in comparison.quantities]
    assert [row.run for row in comparison.runs] == [str(folder) for folder in folders]
    assert (comparison.runs[0].final, comparison.runs[0].bytes_to_target) == (0.875, 4 * BYTES)
    assert comparison.runs[-1].quantity("seconds_to_target") is None
    assert [(row.quantity, row.pairs) for row in comparison.paired] == [
        ("seconds_to_target", 2),
        ("joules_to_target", 2),
        ("final", 3),
    ]


def test_the_json_of_the_command_is_the_comparison(
    comparison: Comparison, folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = compared(capsys, tmp_path / "out", *folders, "--target", "0.6")
    assert list(printed) == [*Comparison.__struct_fields__, "files"]
    assert msgspec.convert(printed, Comparison) == comparison


# ---- tables and columns


def test_columns_have_the_values_of_the_tables(comparison: Comparison) -> None:
    results, costs = comparison.result_columns, comparison.cost_columns
    assert list(results)[:6] == ["group", "strategy", "runs", "reached", "final", "final_half"]
    assert results["group"] == [row[0] for row in comparison.result_table.rows] == ["fedasync", "fedavg"]
    assert (results["runs"], results["reached"]) == ([3, 3], [3, 2])
    assert results["final"] == [0.875, pytest.approx(1.75 / 3)]
    assert results["final_half"] == [0.0, pytest.approx(0.18, abs=0.005)]
    assert results["bytes_to_target"] == [4 * BYTES, 6 * BYTES]  # megabytes in the table
    assert costs["versions"] == [3.0, pytest.approx(8 / 3)]
    assert list(costs)[-1] == "mean_staleness_half"
    assert comparison.paired_columns["mean"][0] == -2.0
    assert comparison.paired_columns["unit"] == ["s", "J (proxy)", ""]
    assert len(comparison.paired_table.rows) == len(comparison.paired) == 3
    assert comparison.run_columns["seed"] == [1, 2, 3] * 2


def test_an_unknown_quantity_is_a_column_without_values(tmp_path: Path) -> None:
    found = comparison_of(write(tmp_path / "one", watts=False))
    assert (found.cost_columns["energy_j"], found.cost_columns["energy_j_half"]) == ([None], [None])
    assert found.cost_columns["versions_half"] == [None]  # one run has no interval
    assert not any("proxy" in title for title in found.cost_table.columns)
    assert "energy_j" not in found.interval_columns["quantity"]


def test_without_pairs_there_are_two_tables_and_empty_columns(tmp_path: Path) -> None:
    found = comparison_of(write(tmp_path / "one"))
    assert [table.title for table in found.tables] == ["Results", "Costs"]
    assert found.paired_table.rows == []
    assert set(map(len, found.paired_columns.values())) == {0}


def test_every_column_has_one_value_of_one_type_for_each_row(comparison: Comparison) -> None:
    """So that a DataFrame can be made of it without conversions."""
    every = [
        comparison.result_columns,
        comparison.cost_columns,
        comparison.paired_columns,
        comparison.interval_columns,
        comparison.run_columns,
    ]
    for columns in every:
        assert len({len(values) for values in columns.values()}) == 1
        for name, values in columns.items():
            assert len({type(value) for value in values if value is not None}) <= 1, name


def test_csv_files_have_the_same_columns(comparison: Comparison, folders: list[Path], tmp_path: Path) -> None:
    compare_files.write(tmp_path / "out", comparison, read(*folders))
    for name, columns in (
        ("compare.csv", comparison.interval_columns),
        ("paired.csv", comparison.paired_columns),
        ("runs.csv", comparison.run_columns),
    ):
        with (tmp_path / "out" / name).open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert header == list(columns)
        texts = [
            "" if value is None else str(value) for values in zip(*columns.values(), strict=True) for value in values
        ]
        assert [cell for row in rows for cell in row] == texts


# ---- figures


def test_figures_are_drawn_in_the_style_of_reports_without_a_file(
    comparison: Comparison, folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    drawn = compare_figures.figures(comparison, read(*folders))
    assert [picture.title for picture in drawn] == [
        "Accuracy over emulated seconds",
        "Accuracy over J (proxy) of the whole fleet",
        "Accuracy over megabytes transferred",
    ]
    [axes] = drawn[0].figure.axes
    assert [line.get_label() for line in axes.lines[:2]] == ["fedasync, 3 runs", "fedavg, 3 runs"]
    assert np.asarray(axes.lines[0].get_xydata())[-1].tolist() == [
        6.0,
        0.875,
    ]  # the last second of a run, and its final score
    assert not axes.spines["top"].get_visible()
    assert os.listdir() == []
