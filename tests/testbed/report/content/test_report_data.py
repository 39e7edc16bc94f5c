"""A trace as plain values, for a small history that is calculated by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.trace import Event
from testbed.report.content.report_data import OWN_STRATEGY, RunData
from tests.testbed.analysis import histories
from tests.testbed.report.examples import HEADER, SMALL, gathered, without_power, write


def run_of(folder: Path, events: list[Event] | None = None, *, beside: bool = False) -> RunData:
    return gathered(write(folder, SMALL if events is None else events, beside=beside))


def test_a_whole_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, beside=True)
    assert (run.header.name, run.total.versions, run.summary.applied, run.lanes.dropped) == ("demo", 2, 2, 1)
    assert [(row.time_s, row.scores["accuracy"]) for row in run.scores] == [(4.0, 0.5), (7.0, 0.75)]
    assert [(row.updates, row.latency_s) for row in run.versions] == [(1, 4.0), (1, 3.0)]
    assert (run.missing, run.notes, run.unpowered) == ([], [], [])
    assert run.lanes.devices == ("a", "b")


def test_a_run_folder_and_its_trace_are_the_same(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert gathered(tmp_path).path == gathered(path).path == path


def test_the_target_of_the_profile_is_among_the_levels(tmp_path: Path) -> None:
    assert list(run_of(tmp_path / "with", beside=True).summary.to_accuracy) == ["0.5", "0.6", "0.7", "0.75"]
    assert list(run_of(tmp_path / "without").summary.to_accuracy) == ["0.5", "0.6", "0.7"]


def test_staleness_and_losses_over_time(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert list(run.staleness) == [(4.0, 0), (7.0, 0)]
    assert list(run.losses) == [(4.0, 2.0), (7.0, 1.0)]


def test_accuracy_and_loss_come_first(tmp_path: Path) -> None:
    scored = trace.Scored(t=7.5, version=2, made=7.0, metrics={"auc": 0.5, "loss": 1.0, "accuracy": 0.5})
    assert run_of(tmp_path, [*SMALL[:-1], scored, SMALL[-1]]).metrics == ["accuracy", "loss", "auc"]


# ---- joules


def test_wasted_joules_by_fate(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert run.wasted == {"a": {}, "b": {"unfinished": 0.5}}  # half a second at one watt for a download that was lost
    assert (run.fates, run.power_sources) == (["unfinished"], ["by hand"])


def test_the_costliest_fate_comes_first(tmp_path: Path) -> None:
    rejected = trace.Rejected(t=7.5, device="a", ticket=9, reason="zero")
    more = [histories.sent(9, 7.0, "a"), histories.trained(9, 7.5, 0.5, "a"), rejected]
    assert run_of(tmp_path, [*SMALL[:-1], *more, SMALL[-1]]).fates == ["rejected", "unfinished"]


def test_devices_without_a_power_model_are_named_and_have_no_joules(tmp_path: Path) -> None:
    run = run_of(tmp_path, without_power(SMALL, "b"))
    assert (run.unpowered, list(run.wasted), run.summary.energy) == (["b"], ["a"], None)


# ---- strategies


def test_a_strategy_has_its_description_and_paper(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert run.description.startswith("Mixes each arriving model")
    assert run.paper.startswith("Xie, Koyejo, Gupta")


def test_a_users_own_strategy_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('a report must not run this')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    header = msgspec.structs.replace(HEADER, strategy="evil:Rule")
    run = run_of(tmp_path, [header, *SMALL[1:]])
    assert (run.description, run.paper, "evil" in sys.modules) == (OWN_STRATEGY, "", False)


# ---- incomplete runs


def test_a_run_without_an_end_says_so(tmp_path: Path) -> None:
    [text] = run_of(tmp_path, SMALL[:-1]).missing
    assert text == "The trace has no end: the run continues or was killed. It is shown up to second 7.0."


def test_a_torn_line_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    torn, no_end = gathered(path).missing
    assert f"{path}, line {len(SMALL)}: is torn" in torn
    assert no_end.startswith("The trace has no end")


def test_devices_without_a_last_report_are_named(tmp_path: Path) -> None:
    silent = [f"d-{i}" for i in range(10)]
    stopped = trace.Stopped(t=8.0, reason="over", version=2, in_flight=0, silent=silent)
    [text] = run_of(tmp_path, [*SMALL[:-1], stopped]).missing
    assert "sent no last report: d-0, d-1, " in text
    assert "d-7 and 2 more." in text


def test_a_run_that_only_began_can_be_read(tmp_path: Path) -> None:
    run = run_of(tmp_path, [HEADER])
    assert (run.devices, run.scores, len(run.versions), run.lanes.cells.shape[0]) == ([], [], 0, 0)


@pytest.mark.parametrize("events", [[], SMALL[1:]])
def test_a_trace_without_a_header_is_refused(tmp_path: Path, events: list[Event]) -> None:
    with pytest.raises(UserError, match=r"has no header|no header comes before it"):
        run_of(tmp_path, events)


def test_an_inconsistent_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its events are inconsistent"):
        run_of(tmp_path, [HEADER, histories.made(1, 1.0, 1)])


def test_a_folder_without_a_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no trace"):
        gathered(tmp_path)


def test_inconsistent_rounds_are_refused(tmp_path: Path) -> None:
    stranger = trace.Round(t=4.0, number=1, devices=["unknown"], seconds=[1.0])
    with pytest.raises(UserError, match="its events are inconsistent"):
        gathered(write(tmp_path, [*SMALL[:-1], stranger, SMALL[-1]]))
