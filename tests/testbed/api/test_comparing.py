"""Comparisons as values, columns, text, HTML and figures."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

from testbed import Run, compare
from testbed.errors import NotARun, UserError
from tests.testbed.comparison.written import write


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    return [write(tmp_path / name, name) for name in ("fedavg", "fedasync")]


def test_runs_and_their_folders_give_the_same_comparison(places: list[Path]) -> None:
    by_object = compare([Run.open(place) for place in places])
    assert by_object.values == compare(places).values == compare(map(str, places)).values
    assert [group.label for group in by_object.values.groups] == ["fedavg", "fedasync"]


def test_tables_are_columns_that_pandas_takes(places: list[Path]) -> None:
    found = compare(places)
    assert list(found.tables) == ["results", "costs", "paired", "runs"]
    for name, table in found.tables.items():
        frame = pandas.DataFrame(table)
        assert list(frame.columns) == list(table), name
        assert len(frame) == len(next(iter(table.values()))), name


def test_it_is_text_and_html(places: list[Path]) -> None:
    found = compare(places)
    assert "fedasync" in str(found)
    assert "final accuracy" in str(found)
    assert "<table" in found._repr_html_()
    assert repr(found).startswith("<comparison: 2 runs in 2 groups")


def test_figures_and_files(places: list[Path], tmp_path: Path) -> None:
    found = compare(places)
    assert "accuracy-over-seconds" in found.figures()
    assert tmp_path / "out" / "compare.html" in found.write(tmp_path / "out")


def test_a_run_stays_readable_after_a_change_of_the_working_folder(
    places: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places[0].parent)
    found = Run.open(places[0].name)
    monkeypatch.chdir("/")
    assert found.summary.strategy == "fedavg"
    assert Run.open(found).path == places[0]


def test_the_target_may_be_given(places: list[Path]) -> None:
    assert compare(places, target=0.5).values.target == 0.5


def test_wrong_input(places: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="takes a list of runs"):
        compare(str(places[0]))
    with pytest.raises(UserError, match="nothing to compare"):
        compare([])
    with pytest.raises(UserError, match=r"target='0\.8': must be a number"):
        compare(places, target="0.8")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="3 is not a run"):
        compare([3])  # type: ignore[list-item]
    with pytest.raises(NotARun, match="3: is not a path"):
        Run.open(3)  # type: ignore[arg-type]
    with pytest.raises(NotARun, match="there is no such run folder"):
        compare([tmp_path / "nothing"])
