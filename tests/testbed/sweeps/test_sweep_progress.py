"""The estimated time of a sweep, and its progress on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from testbed.runs.sweep_state import DONE, FAILED, SweepCell
from testbed.sweeps.sweep_progress import SweepProgress, duration, remaining


def cell(name: str, state: str = "waiting", *, seconds: float | None = 4.0, took: float | None = None) -> SweepCell:
    return SweepCell(name=name, words=[], digest="", seconds=seconds, state=state, took=took)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (125, "2 min 05 s"), (7260, "2 h 01 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_remaining_time_follows_from_profiles_and_then_from_finished_runs() -> None:
    first = [cell("a"), cell("b", seconds=6.0)]
    assert remaining(first, first) == 10.0
    assert remaining(first, [cell("c", seconds=None)]) is None
    done = [cell("a", DONE, took=10.0), cell("b", DONE, took=20.0)]
    assert remaining([*done, cell("c"), cell("d", FAILED)], [cell("c")]) == 15.0
    assert remaining(done, []) == 0.0


def test_a_terminal_shows_the_current_run_in_one_line() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    cells = [cell("a", DONE, took=10.0), cell("b"), cell("c")]
    progress = SweepProgress(console, cells)
    progress.under_way(cells[1], 3.0)
    assert "run 2 of 3: b, 3 s, about 17 s left" in screen.getvalue()
    cells[1].state, cells[1].took = DONE, 10.0
    progress.ended(cells[1], "done in 10 s")
    progress.under_way(cells[2], 1.0)
    progress.ended(cells[2], "failed")
    assert "run 2 of 3: b: done in 10 s; about 10 s left" in screen.getvalue()
    assert "run 3 of 3: c, 1 s, about 9 s left" in screen.getvalue()


def test_a_pipe_gets_a_line_for_each_run() -> None:
    pipe = io.StringIO()
    cells = [cell("a")]
    progress = SweepProgress(Console(file=pipe, width=100), cells)
    progress.under_way(cells[0], 3.0)
    assert pipe.getvalue() == ""
    progress.ended(cells[0], "failed, exit code 1")
    assert pipe.getvalue() == "run 1 of 1: a: failed, exit code 1\n"
