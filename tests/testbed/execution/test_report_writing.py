"""The page of a run: its place, and that a failure to write it never costs the results of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from testbed.analysis import trace_reading
from testbed.cli import outcome_text
from testbed.execution import report_writing
from testbed.execution.outcome import Outcome
from testbed.report import sections
from testbed.report.content.report_data import ReportCollector
from testbed.runs import run_results
from tests.testbed.examples import device_spec
from tests.testbed.report.examples import HEADER, SMALL, gathered, write


@pytest.mark.parametrize(
    ("trace", "page"),
    [
        ("trace.jsonl", "report.html"),
        ("trace.jsonl.gz", "report.html"),
        ("mine.jsonl", "mine.report.html"),
        ("mine.jsonl.gz", "mine.report.html"),
    ],
)
def test_a_page_is_named_after_its_trace(trace: str, page: str) -> None:
    assert report_writing.place_of(Path("runs") / trace) == Path("runs") / page


def test_a_page_that_could_not_be_finished_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = write(tmp_path, [HEADER]), tmp_path / "report.html"
    out.write_text("old", encoding="utf-8")

    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report_writing.write(gathered(path), out)
    assert out.read_text(encoding="utf-8") == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"trace.jsonl", "report.html"}


# ---- after a run


def after(folder: Path, *, quiet: bool = False, collect: bool = True) -> int:
    """Write the report as after a run, and print it. Returns the exit code."""
    outcome, collected = Outcome(folder=folder), ReportCollector() if collect else None
    results = run_results.compute(
        folder / "trace.jsonl",
        [device_spec("a"), device_spec("b")],
        checkers=() if collected is None else collected.checkers,
        listeners=() if collected is None else collected.listeners,
    )
    report_writing.after_run(folder, outcome, results, collected, Console(), quiet=quiet)
    return outcome_text.show(outcome, Console(), quiet=quiet, as_json=False)


def test_after_a_run_its_page_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, [HEADER])
    assert after(tmp_path) == 0
    assert capsys.readouterr().out == f"report: {tmp_path}/report.html\n"


def test_a_quiet_run_prints_nothing_of_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, [HEADER])
    assert after(tmp_path, quiet=True) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "report.html").exists()


def test_a_run_that_failed_before_its_first_event_has_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert after(tmp_path) == 0
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_a_trace_that_gives_no_page_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, [])
    assert after(tmp_path) == 0
    assert capsys.readouterr().err.startswith(f"warning: no report: {tmp_path}/trace.jsonl: has no header")


def test_a_report_that_cannot_be_drawn_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(run: object) -> None:
        raise ZeroDivisionError("unexpected")

    write(tmp_path, [HEADER])
    monkeypatch.setattr(sections, "draw", fail)
    assert after(tmp_path) == 0
    log = tmp_path / "logs" / "report.log"
    advice = f"to try again: run_testbed.py report {tmp_path}"
    assert capsys.readouterr().err == f"warning: no report (ZeroDivisionError, see {log}); {advice}\n"
    assert log.read_text(encoding="utf-8").endswith("ZeroDivisionError: unexpected\n")


def test_an_interrupted_report_can_be_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(folder: Path) -> Path:
        raise KeyboardInterrupt

    write(tmp_path, [HEADER])
    monkeypatch.setattr(trace_reading, "file_of", interrupted)
    assert after(tmp_path) == 130
    assert capsys.readouterr().err == f"warning: no report; to make it: run_testbed.py report {tmp_path}\n"


@pytest.mark.parametrize("collect", [True, False], ids=["one pass", "two passes"])
def test_the_page_after_a_run_is_the_same_in_one_pass_or_two(tmp_path: Path, collect: bool) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    assert after(tmp_path, collect=collect) == 0
    again = report_writing.page(gathered(path))
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == again
    assert f"line {len(SMALL)}: is torn" in again
