"""The end of a run: its exit code, and what is printed about it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from testbed.analysis import metrics
from testbed.analysis.totals import totals
from testbed.cli import outcome_text
from testbed.execution.outcome import Outcome

FOLDER = Path("runs/x")
SUMMARY = metrics.summary(totals([]))
UNWRITTEN = {"summary.json": "No space left on device"}


@pytest.mark.parametrize(
    ("changes", "code", "complete"),
    [
        ({}, 0, True),
        ({"failure": "it has died"}, 1, False),
        ({"unwritten": UNWRITTEN}, 1, False),
        ({"signal": signal.SIGINT}, 130, False),
        ({"signal": signal.SIGTERM}, 143, False),
        ({"departure": "differs"}, 1, True),
        ({"failure": "it has died", "signal": signal.SIGINT}, 1, False),
        ({"unwritten": UNWRITTEN, "signal": signal.SIGINT}, 1, False),
        ({"signal": signal.SIGINT, "departure": "differs"}, 130, False),
        ({"warnings": ["no report"]}, 0, True),
        ({"resumable": True, "report": FOLDER / "report.html"}, 0, True),
    ],
)
def test_exit_codes(changes: dict[str, Any], code: int, complete: bool) -> None:
    outcome = Outcome(folder=FOLDER, **changes)
    assert (outcome.exit_code, outcome.is_complete) == (code, complete)


# ---- printed


def shown(
    capsys: pytest.CaptureFixture[str], *, quiet: bool = False, as_json: bool = False, **changes: Any
) -> tuple[int, list[str], list[str]]:
    """The exit code, and the lines on standard output and standard error."""
    outcome = Outcome(folder=FOLDER, **changes)
    code = outcome_text.show(outcome, Console(stderr=as_json), quiet=quiet, as_json=as_json)
    output = capsys.readouterr()
    return code, output.out.splitlines(), output.err.splitlines()


def test_a_run_that_succeeded_shows_its_summary_and_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, summary=SUMMARY, report=FOLDER / "report.html")
    assert (code, err) == (0, [])
    assert out[0] == "stopped: the aggregator ended early"
    assert out[-2:] == ["results in runs/x", "report: runs/x/report.html"]


def test_a_run_that_failed_says_why_and_how_to_continue(capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"failure": "it has died", "resumable": True, "unwritten": UNWRITTEN, "warnings": ["no report"]}
    code, out, err = shown(capsys, summary=SUMMARY, **changes)
    assert (code, out[-1]) == (1, "to continue: run_testbed.py resume runs/x")
    assert err == [  # why it failed was printed before its results were computed
        "error: runs/x: summary.json cannot be written: No space left on device; free disk space; the trace is kept,"
        " and run_testbed.py report runs/x writes a page from it",
        "warning: no report",
    ]


def test_json_has_a_folder_whose_name_is_not_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(os.fsdecode(b"/caf\xe9/" + "→".encode()))
    outcome_text.show(Outcome(folder=folder, summary=SUMMARY), Console(stderr=True), quiet=True, as_json=True)
    text = capsys.readouterr().out
    assert '"/caf\\udce9/→"' in text
    assert json.loads(text) == msgspec.to_builtins(SUMMARY) | {"run_folder": str(folder)}


def test_a_quiet_run_prints_its_folder_and_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"failure": "it has died", "resumable": True, "report": FOLDER / "report.html"}
    code, out, err = shown(capsys, quiet=True, summary=SUMMARY, **changes)
    assert (code, out, err) == (1, ["runs/x"], [])


def test_why_a_run_failed_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    outcome_text.tell_failure("it has died")
    assert capsys.readouterr().err == "error: it has died; what was recorded is kept\n"


def test_a_run_without_results_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, signal=signal.SIGINT) == (130, [], [])


def test_json_is_the_summary_with_the_run_folder(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shown(capsys, as_json=True, summary=SUMMARY, report=FOLDER / "report.html")
    table = json.loads("\n".join(out))
    assert code == 0
    assert table == msgspec.to_builtins(SUMMARY) | {"run_folder": "runs/x"}


def test_a_strict_replay_that_differs_is_an_error_unless_the_run_failed_anyway(
    capsys: pytest.CaptureFixture[str],
) -> None:
    departure = "differs from the recorded run in: arrivals"
    code, _, err = shown(capsys, summary=SUMMARY, departure=departure)
    assert (code, err) == (1, [f"error: the replay {departure} (the aggregator ended early)"])
    code, _, err = shown(capsys, summary=SUMMARY, departure=departure, signal=signal.SIGINT)
    assert (code, err) == (130, [])
