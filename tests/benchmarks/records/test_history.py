from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.records import history
from tests.benchmarks.records.examples import FIGURE, OCCASION, example
from tests.benchmarks.records.figure import Figure


def test_an_appended_line_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = [example(), example(row="100 devices", date="2026-11-18T03:00:00Z")]
    for line in lines:
        history.append(path, line)
    assert history.read(path.read_text(encoding="utf-8")) == lines


def test_a_line_has_all_that_is_known_about_its_figure() -> None:
    line = history.line(FIGURE, OCCASION, "2026-11-18T02:00:00Z", (0.0314, None))
    assert (line.name, line.value, line.values) == (("race", "10 devices", "ours"), 176.0, [170.0, 181.0])
    assert (line.aim, line.reached, line.unit) == ("≥ 150", True, "updates/s")
    assert (line.commit, line.dirty, line.host, line.torch) == ("abc1234", False, ("EPYC", 2), "2.13.0")
    assert line.pressure == [0.031, None]


def test_lines_that_a_merge_mixed_are_sorted_by_date(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for hour in ("03", "01", "02"):
        history.append(path, example(date=f"2026-11-18T{hour}:00:00Z"))
    assert [line.date[11:13] for line in history.read(path.read_text(encoding="utf-8"))] == ["01", "02", "03"]


def test_a_line_that_is_none_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history.append(path, example())
    with pytest.raises(ValueError, match="line 2"):
        history.read(path.read_text(encoding="utf-8") + "<<<<<<< HEAD\n")


def test_a_long_note_is_cut_so_that_the_line_stays_short(tmp_path: Path) -> None:
    figure = Figure(row="10 devices", value=None, note="ö" * 10_000)
    history.append(tmp_path / "history.jsonl", history.line(figure, OCCASION, "2026-11-18T02:00:00Z", (None, None)))
    assert (tmp_path / "history.jsonl").stat().st_size <= history.MOST_BYTES


def test_a_line_that_is_too_long_is_not_appended(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shorten"):
        history.append(tmp_path / "history.jsonl", example(row="r" * 1000))
    assert not (tmp_path / "history.jsonl").exists()


def test_the_newest_figure_of_each_name_counts() -> None:
    other = example(row="100 devices")
    newer = example(value=180.0, date="2026-11-18T03:00:00Z")
    assert history.newest([example(), other, newer]) == {newer.name: newer, other.name: other}


def test_a_quick_figure_does_not_replace_a_full_one_of_the_same_code() -> None:
    full = example()
    assert history.newest([full, example(quick=True)])[full.name] == full


def test_a_quick_figure_replaces_a_full_one_of_older_code() -> None:
    quick = example(quick=True, code="new")
    assert history.newest([example(), quick])[quick.name] == quick


def test_figures_of_another_host_are_left_out() -> None:
    here, there = example(), example(cores=64)
    assert history.of_host([here, there], here.host) == [here]


def test_the_history_of_this_project_is_readable() -> None:
    text = history.FILE.read_text(encoding="utf-8")
    history.read(text)
    assert all(len(line.encode()) < history.MOST_BYTES for line in text.splitlines())
