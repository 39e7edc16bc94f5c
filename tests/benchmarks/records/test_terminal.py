from __future__ import annotations

import io
import subprocess
from pathlib import Path

import msgspec
from rich.console import Console

from tests.benchmarks.records import history, provenance, terminal
from tests.benchmarks.records.examples import example
from tests.benchmarks.records.terminal import Printer, change, compared


def test_a_larger_figure_is_better_where_the_aim_is_a_lower_bound() -> None:
    assert "+12%, better" in compared(example(value=197.0), example())
    assert "-11%, worse" in compared(example(value=157.0), example())


def test_a_larger_figure_is_worse_where_the_aim_is_an_upper_bound() -> None:
    assert "+12%, worse" in compared(example(value=197.0, aim="≤ 200"), example())
    assert "-11%, better" in compared(example(value=157.0, aim="≤ 200"), example())


def test_without_an_aim_no_direction_is_better() -> None:
    text = compared(example(value=352.0, aim=""), example())
    assert "+100%" in text
    assert "better" not in text
    assert "worse" not in text


def test_a_small_change_is_neither_better_nor_worse() -> None:
    text = compared(example(value=177.0), example())
    assert "better" not in text
    assert "worse" not in text


def test_only_numbers_of_the_same_unit_are_compared() -> None:
    assert change(example(unit="s"), example()) is None
    assert change(example(quick=True), example()) is None
    assert change(example(value="PASS"), example(value="WARN")) is None
    assert change(example(value=None), example()) is None
    assert change(example(), example(value=0.0)) is None


def test_a_printed_figure_has_aim_verdict_last_figure_and_pressure() -> None:
    out = io.StringIO()
    Printer(Console(file=out, width=200), {example().name: example(value=200.0)}).figure(example(note="why"))
    text = out.getvalue()
    for word in (
        "10 devices: ours",
        "176 updates/s",
        "170 to 181",
        "≥ 150",
        "reached",
        "was 200",
        "-12%, worse",
        "why",
    ):
        assert word in text
    assert "pressure 50%" in text


def test_the_last_committed_figure_is_compared_not_the_last_measured_one(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    history.append(path, example(value=150.0))
    subprocess.run([*git, "add", path.name], check=True)
    subprocess.run([*git, "commit", "-qm", "figures"], check=True)
    history.append(path, example(value=99.0, date="2026-11-18T09:00:00Z"))
    [found] = terminal.last_committed(provenance.committed(path), example().host).values()
    assert found.value == 150.0


def test_a_file_that_was_never_committed_has_no_committed_figures(tmp_path: Path) -> None:
    assert provenance.committed(tmp_path / "history.jsonl") == ""
    assert terminal.last_committed("", ("EPYC", 2)) == {}


def test_docstrings_and_comments_do_not_change_the_code(tmp_path: Path) -> None:
    def written(text: str) -> str:
        (tmp_path / "run_testbed.py").write_text(text, encoding="utf-8")
        return provenance.digest(tmp_path)

    first = written('"""Old words."""\nx = 1\n')
    assert written('"""New words."""\nx = 1  # a comment\n') == first
    assert written('"""Old words."""\nx = 2\n') != first


def test_pressure_is_a_share_of_the_time_between_two_looks() -> None:
    share = provenance.pressure_now()
    assert share is None or 0.0 <= share <= 1.0
    assert msgspec.json.encode(share)
