"""A run with pretended processes: packing, a torn trace, failures, and what is printed at the end."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from testbed.execution import report_writing
from testbed.history import packing, trace
from testbed.report.content.head_terms import Clusters
from testbed.runs import resuming
from tests.testbed.analysis.test_metrics import EVENTS
from tests.testbed.examples import MINIMAL
from tests.testbed.execution.pretended import FAILURE, Pretended, carried_out, traces
from tests.testbed.report.examples import gathered
from tests.testbed.runs.folders import counted_reads


@pytest.fixture(autouse=True)
def own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())


# ---- packing


def test_the_trace_of_a_run_that_can_be_resumed_stays_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resuming, "_ended", lambda folder, of: None)  # it was killed: its trace has no end
    pretended = Pretended(signal=signal.SIGINT, checkpoint=True)
    code, run = carried_out(tmp_path, monkeypatch, pretended, "--compress")
    assert (code, traces(run)) == (130, ["trace.jsonl.gz"])
    assert f"run_testbed.py resume {run}" in "".join(capsys.readouterr().out.split("\n"))


@pytest.mark.parametrize(
    ("pretended", "code"),
    [(Pretended(), 0), (Pretended(failure=FAILURE), 1), (Pretended(signal=signal.SIGINT), 130)],
    ids=["done", "failed", "interrupted"],
)
def test_the_trace_is_packed_on_request_after_any_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretended: Pretended, code: int
) -> None:
    found, run = carried_out(tmp_path, monkeypatch, pretended, "--compress")
    assert (found, traces(run)) == (code, ["trace.jsonl.gz"])
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["applied"] == 3


def test_a_profile_may_request_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = carried_out(tmp_path, monkeypatch, Pretended(), profile=f"compress = true\n{MINIMAL}")
    assert traces(run) == ["trace.jsonl.gz"]


def test_without_a_request_the_trace_stays_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert traces(run) == ["trace.jsonl"]


def test_a_run_without_a_trace_packs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = Pretended(failure=FAILURE, silent=True)
    code, run = carried_out(tmp_path, monkeypatch, pretended, "--compress")
    assert (code, traces(run)) == (1, [])
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("problem", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "packing was interrupted; the uncompressed trace is kept"),
        (
            OSError(28, "No space left on device"),
            0,
            "cannot be packed: No space left on device; the uncompressed trace is kept",
        ),
    ],
)
def test_a_run_whose_trace_cannot_be_packed_keeps_it_with_its_results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: BaseException,
    code: int,
    said: str,
) -> None:
    def raising(path: Path, progress: object) -> Path:
        raise problem

    monkeypatch.setattr(packing, "pack", raising)
    found, run = carried_out(tmp_path, monkeypatch, Pretended(), "--compress", "--quiet")
    assert (found, traces(run)) == (code, ["trace.jsonl"])
    output = capsys.readouterr()
    assert output.err == f"warning: {run / 'trace.jsonl'}: {said}\n"
    assert output.out == f"{run}\n"


# ---- a torn trace


def test_a_torn_last_line_is_in_the_summary_in_the_report_and_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    pretended = Pretended(failure=FAILURE, torn=True)
    code, run = carried_out(tmp_path, monkeypatch, pretended, "--compress")
    assert (code, traces(run)) == (1, ["trace.jsonl.gz"])
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["torn_line"] == len(EVENTS)
    note = f"note: the last line ({len(EVENTS)}) of trace.jsonl is torn, as a crash leaves it; it is left out"
    assert note in capsys.readouterr().out.splitlines()
    torn: list[int] = []
    assert list(trace.read(run / "trace.jsonl.gz", torn.append)) == EVENTS[:-1]
    assert torn == [len(EVENTS)]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert f"line {len(EVENTS)}: is torn, as a crash leaves it; it is left out" in page


def test_a_complete_trace_is_not_called_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["torn_line"] is None


# ---- one pass


def test_results_and_report_of_a_run_read_its_trace_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted_reads(monkeypatch)
    _, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert found == [run / "trace.jsonl"]
    assert (run / "report.html").exists()


def test_the_report_of_a_run_is_the_one_that_is_made_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = carried_out(tmp_path, monkeypatch, Pretended())
    again = report_writing.page(gathered(run))
    assert (run / "report.html").read_text(encoding="utf-8") == again


def test_a_failure_to_collect_the_data_of_the_report_does_not_cost_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, event: object) -> None:
        raise ZeroDivisionError("unexpected")

    monkeypatch.setattr(Clusters, "_joined", fail)
    code, run = carried_out(tmp_path, monkeypatch, Pretended())
    assert code == 0
    assert json.loads((run / "summary.json").read_text(encoding="utf-8"))["applied"] == 3
    assert (run / "logs" / "report.log").read_text(encoding="utf-8").endswith("ZeroDivisionError: unexpected\n")


# ---- failures


def test_a_trace_that_cannot_be_read_gives_no_results_and_all_problems_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, run = carried_out(tmp_path, monkeypatch, Pretended(failure=FAILURE, damaged=True), "--quiet")
    assert code == 1
    assert not (run / "summary.json").exists()
    error = capsys.readouterr().err
    first, second = error.splitlines()
    assert first == f"error: {FAILURE}; what was recorded is kept"
    assert second.startswith(f"error: the trace cannot be read, so there are no results: {run}/trace.jsonl")
