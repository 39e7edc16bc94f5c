"""The replay certificate, calculated by hand, and its text on the terminal."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.history import trace
from testbed.history.event_pass import pass_events
from testbed.profile.schema import Direction, Replay
from testbed.replay import replay_certificate
from testbed.replay.replay_certificate import Observed, ReplayObserver, in_order
from testbed.runs.results.replay_result import DelayErrors, ReplayCertificate
from testbed.runs.run_folder import RunFolder
from tests.testbed.examples import device_spec
from tests.testbed.replay.test_recording import abandoned, down, suspended, trained, up
from tests.testbed.replay.test_replay_setup import HEADER, arrived, joined, recorded, stopped
from tests.testbed.runs.folders import new_folder, write_results
from tests.testbed.runs.test_summary_text import lines_of

# ---- order


def arrivals(text: str) -> list[tuple[str, int]]:
    """``aba``: the first of a, the first of b, the second of a."""
    return [(device, text[:place].count(device)) for place, device in enumerate(text)]


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ("abab", "abab", 1.0),
        ("abcd", "abdc", 3 / 4),  # abd or abc
        ("abcd", "dabc", 3 / 4),
        ("abcd", "dcba", 1 / 4),
        ("abcdef", "badcfe", 3 / 6),  # one of each pair
        ("abcdef", "defabc", 3 / 6),
        ("aabb", "bbaa", 2 / 4),
        ("aabb", "abab", 3 / 4),  # a0 a1 b1, or a0 b0 b1
        ("abc", "abcabc", 1.0),  # what was not recorded is not compared
        ("abcabc", "abc", 1.0),
        ("abc", "xacyb", 2 / 3),
        ("abc", "cxyz", 1.0),
        ("a", "a", 1.0),
    ],
)
def test_the_share_in_order_is_that_of_the_longest_increasing_subsequence(
    before: str, after: str, share: float
) -> None:
    assert in_order(arrivals(before), arrivals(after)) == pytest.approx(share)


@pytest.mark.parametrize(("before", "after"), [("", ""), ("abc", ""), ("", "abc"), ("abc", "xyz")])
def test_without_common_arrivals_there_is_no_share(before: str, after: str) -> None:
    assert in_order(arrivals(before), arrivals(after)) is None


# ---- delays and losses of jobs


def observe(events: Iterable[trace.Event], name_of: Mapping[str, str] | None = None) -> Observed:
    observer = ReplayObserver(name_of)
    pass_events(events, observer)
    return observer.observed


RECORDED = (
    HEADER,
    joined("a"),
    joined("b"),
    down(1, 0, 0.5, dropped=True),
    down(1, 0, 0.25, attempt=1),
    suspended(1, 2, 1.5),
    trained(1, steps=4, asked=2.0, obtained=3.0),
    up(1, 0, 0.75),
    arrived("a", 4.0),
    down(2, 0, 1.0, device="b"),
    trained(2, steps=4, obtained=4.0, device="b"),
    up(2, 0, 2.0, device="b"),
    arrived("b", 8.0, ticket=2, staleness=1),
    stopped(9.0, model="cafe"),
)


def test_a_recorded_run_counts_transfers_and_suspensions_as_due_and_computing_per_step() -> None:
    found = observe(RECORDED, {"a": "a", "b": "b"})
    assert found.seconds == {
        ("download", "a", 0, 0): 0.5,
        ("download", "a", 0, 1): 0.25,
        ("suspension", "a", 0, 0): 1.5,
        ("computing", "a", 0, 0): 0.75,
        ("upload", "a", 0, 0): 0.75,
        ("download", "b", 0, 0): 1.0,
        ("computing", "b", 0, 0): 1.0,
        ("upload", "b", 0, 0): 2.0,
    }
    assert (found.arrivals, found.staleness, found.model) == ([("a", 0), ("b", 0)], [0, 1], "cafe")


def test_a_replay_counts_them_as_obtained() -> None:
    found = observe(RECORDED).seconds
    assert found["download", "a", 0, 0] == 0.75
    assert found["suspension", "a", 0, 0] == 1.625
    assert found["upload", "a", 0, 0] == 0.75


def test_recorded_devices_get_the_names_of_the_replaying_ones_and_others_are_left_out() -> None:
    found = observe(RECORDED, {"b": "z"})
    assert {name for _, name, _, _ in found.seconds} == {"z"}
    assert (found.arrivals, found.staleness, found.model) == ([("z", 0)], [1], "cafe")


def test_absences_are_not_compared_by_job() -> None:
    events = [msgspec.structs.replace(down(1, 0, 2.5), absent=2.0), suspended(1, 2, 4.0, away=True)]
    assert observe(events, {"a": "a"}).seconds == {("download", "a", 0, 0): 0.5}


def test_abandoned_work_is_not_compared() -> None:
    assert list(observe([down(1, 0, 0.5), abandoned(1, 2, 1.0)]).seconds) == [("download", "a", 0, 0)]


def test_the_final_model_is_no_job_and_is_not_compared() -> None:
    final = trace.Dispatched(t=5.0, device="a", ticket=9, version=3, steps=0)
    found = observe([down(1, 0, 0.5), final, down(9, 1, 0.25, dropped=True), down(9, 1, 0.25, attempt=1)])
    assert list(found.lost) == [("download", "a", 0, 0)]


# ---- figures


def figures(count: int, p50: float, p99: float, most: float) -> DelayErrors:
    return DelayErrors(count=count, p50_s=p50, p99_s=p99, max_s=most)


def compare(recorded: Observed, replayed: Observed) -> ReplayCertificate:
    return replay_certificate.compare(recorded, replayed, ReplayCertificate(trace="t", mode="schedule"))


def test_the_figures_of_a_certificate_are_right() -> None:
    recorded = Observed(
        seconds={
            ("download", "a", 0, 0): 0.5,
            ("download", "a", 1, 0): 0.5,
            ("download", "a", 2, 0): 0.5,
            ("upload", "a", 0, 0): 1.0,
            ("computing", "a", 0, 0): 0.25,
        },
        steps={("computing", "a", 0, 0): 4},
        arrivals=arrivals("aab"),
        staleness=[0, 1, 2],
        model="cafe",
        versions=3,
        lost={("upload", "a", 0, 0): True, ("download", "a", 0, 0): False},
    )
    replayed = Observed(
        seconds={
            ("download", "a", 0, 0): 0.75,
            ("download", "a", 1, 0): 0.375,
            ("download", "a", 2, 0): 0.5,
            ("upload", "a", 0, 0): 0.5,
            ("upload", "a", 0, 1): 7.0,  # an attempt that was not recorded
            ("computing", "a", 0, 0): 0.375,
            ("suspension", "b", 0, 0): 9.0,
        },
        steps={("computing", "a", 0, 0): 8},
        arrivals=arrivals("aba"),
        staleness=[0, 1, 1],
        model="beef",
        versions=4,
        lost={("upload", "a", 0, 0): False, ("download", "a", 0, 0): False, ("upload", "a", 0, 1): True},
    )
    assert compare(recorded, replayed) == ReplayCertificate(
        trace="t",
        mode="schedule",
        delays={
            "computing": figures(1, 1.0, 1.0, 1.0),  # eight steps, each an eighth of a second off
            "download": figures(3, 0.125, 0.25, 0.25),
            "upload": figures(1, 0.5, 0.5, 0.5),
            "suspension": None,
            "all": figures(5, 0.25, 1.0, 1.0),
        },
        beyond_the_recording=2,
        arrivals=3,
        arrivals_recorded=3,
        arrivals_common=3,
        arrivals_in_order=2 / 3,
        transfers_common=2,
        losses_differ=1,
        same_staleness=False,
        same_losses=True,
        same_versions=False,
        same_arrivals=False,
        same_model=False,
        model="beef",
    )


def test_an_exact_replay_has_no_errors() -> None:
    found = compare(observe(RECORDED, {"a": "a", "b": "b"}), observe(RECORDED, {"a": "a", "b": "b"}))
    assert found.delays["all"] == figures(8, 0.0, 0.0, 0.0)
    assert (found.beyond_the_recording, found.arrivals, found.arrivals_in_order) == (0, 2, 1.0)
    assert (found.same_staleness, found.same_arrivals, found.same_model) == (True, True, True)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [("cafe", "cafe", True), ("cafe", "beef", False), ("", "cafe", None), ("cafe", "", None), ("", "", None)],
)
def test_models_are_the_same_or_not_or_one_is_not_known(before: str, after: str, same: bool | None) -> None:
    assert compare(Observed(model=before), Observed(model=after)).same_model is same


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ([0, 1], [0, 1], True),
        ([], [], True),
        ([0, 1, 2], [0, 1], False),
        ([0, 1], [0, 1, 2], False),
        ([0, 1], [1, 0], False),
    ],
)
def test_sequences_of_staleness_are_compared_as_a_whole(before: list[int], after: list[int], same: bool) -> None:
    assert compare(Observed(staleness=before), Observed(staleness=after)).same_staleness is same


def test_a_replay_of_nothing_has_a_certificate_too() -> None:
    found = compare(Observed(), Observed())
    assert set(found.delays.values()) == {None}
    assert (found.arrivals, found.arrivals_in_order, found.same_model) == (0, None, None)


@pytest.mark.parametrize(
    ("changes", "departure"),
    [
        ({}, None),
        ({"same_model": None}, None),
        ({"same_model": False}, "final model"),
        ({"same_arrivals": False, "same_staleness": False}, "arrivals, sequence of staleness"),
        ({"same_model": None, "same_losses": False}, "local losses"),  # a run that was killed
        ({"losses_differ": 2}, "lost transfers"),
        ({"same_versions": False}, "number of versions"),
    ],
)
def test_a_strict_replay_equals_the_recorded_run_or_its_differences_are_named(
    changes: dict[str, Any], departure: str | None
) -> None:
    same = dict.fromkeys(("same_arrivals", "same_staleness", "same_losses", "same_versions", "same_model"), True)
    values: dict[str, Any] = same | {"losses_differ": 0} | changes
    found = ReplayCertificate(trace="t", mode="strict", **values)
    assert replay_certificate.departure(found) == departure


# ---- from one trace and the other


def test_a_certificate_names_trace_and_mode_and_follows_from_the_two_traces(tmp_path: Path) -> None:
    run = recorded(tmp_path, RECORDED)
    replayed = Replay(trace=str(run), mode="strict", end="stop", use="obtained", devices="order")
    again = [
        HEADER,
        joined("x"),
        joined("y"),
        down(1, 0, 0.25, device="x"),
        trained(1, steps=2, obtained=1.75, device="x"),
        up(1, 0, 0.75, device="x"),
        stopped(9.0, model="cafe"),
    ]
    certificate = replay_certificate.certify(replayed, ["x", "y"], observe(again))
    assert {key: getattr(certificate, key) for key in ("trace", "mode", "end", "use", "same_model")} == {
        "trace": str(run / "trace.jsonl"),
        "mode": "strict",
        "end": "stop",
        "use": "obtained",
        "same_model": True,
    }
    # 0.25 + 0.25 is what was due; 1.75 for two steps are 0.25 more than 2 × 0.75
    assert certificate.delays["download"] == figures(1, 0.0, 0.0, 0.0)
    assert certificate.delays["computing"] == figures(1, 0.25, 0.25, 0.25)


def test_computing_is_compared_with_the_seconds_that_the_replay_uses(tmp_path: Path) -> None:
    """The recorded run asked for 2 s and obtained 3 s; the replay asked for 2 s and obtained them."""
    run = recorded(tmp_path, [HEADER, joined("a"), down(1, 0, 0.5), trained(1, steps=4, asked=2.0, obtained=3.0)])
    again = [HEADER, joined("a"), down(1, 0, 0.5), trained(1, steps=4, asked=2.0, obtained=2.0)]
    off = {
        use: replay_certificate.certify(Replay(trace=str(run), use=use), ["a"], observe(again)).delays["computing"]
        for use in ("asked", "obtained")
    }
    assert off == {"asked": figures(1, 0.0, 0.0, 0.0), "obtained": figures(1, 1.0, 1.0, 1.0)}


def test_without_its_recording_a_replay_only_lacks_the_certificate(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "runs", RECORDED)
    summary = write_results(folder, [device_spec("a"), device_spec("b")], Replay(trace=str(tmp_path / "gone")))
    assert summary.replay is not None
    assert summary.replay.problem is not None
    assert "there is no such run folder" in summary.replay.problem
    stored = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))["replay"]
    assert stored == msgspec.to_builtins(summary.replay)
    known = {"trace": str(tmp_path / "gone"), "mode": "schedule", "problem": summary.replay.problem, "delays": {}}
    assert stored == dict.fromkeys(ReplayCertificate.__struct_fields__) | known
    assert lines_of(replay=summary.replay)[0].startswith("replay (schedule): not certified: ")


def test_the_certificate_is_in_a_file_of_its_own_and_in_the_summary(tmp_path: Path) -> None:
    run = recorded(tmp_path, RECORDED)
    folder = new_folder(tmp_path / "runs", RECORDED)
    summary = write_results(folder, [device_spec("a"), device_spec("b")], Replay(trace=str(run)))
    written = json.loads((folder.path / "replay.json").read_text(encoding="utf-8"))
    assert msgspec.to_builtins(summary.replay) == written
    assert json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))["replay"] == written
    assert (written["mode"], written["same_arrivals"], written["model"]) == ("schedule", True, "cafe")


@pytest.mark.parametrize("replayed", [None, Replay()])
def test_a_run_that_replays_nothing_has_no_such_certificate(tmp_path: Path, replayed: Replay | None) -> None:
    folder = new_folder(tmp_path / "runs", RECORDED)
    assert write_results(folder, [device_spec("a"), device_spec("b")], replayed).replay is None
    assert not (folder.path / "replay.json").exists()


def test_a_replay_that_did_not_begin_has_results_too(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path / "runs", "again", datetime(2024, 1, 2, 3, 4, 5))
    run = recorded(tmp_path, RECORDED)
    assert write_results(folder, (), Replay(trace=str(run))).replay is None  # it was interrupted before it was planned
    certificate = write_results(folder, [device_spec("a")], Replay(trace=str(run))).replay
    assert certificate is not None
    assert certificate.arrivals == 0


@pytest.mark.parametrize(("mode", "loss", "causality"), [("", "FAIL", "FAIL"), ("strict", "not measured", "PASS")])
def test_a_replay_is_not_judged_by_the_loss_and_the_delay_of_the_profile(
    tmp_path: Path, mode: str, loss: str, causality: str
) -> None:
    """Every recorded transfer was lost and took less than the delay of the profile."""
    header = msgspec.structs.replace(HEADER, replay=mode)
    lost = [down(1, 0, 0.5, attempt=attempt, dropped=True) for attempt in range(40)]
    folder = new_folder(tmp_path, [header, joined("a"), *lost, stopped(9.0)])
    device = dataclasses.replace(device_spec("a"), down=Direction(delay=1.0))
    certificate = write_results(folder, [device]).fidelity
    assert certificate is not None
    verdicts = {line.name: line.verdict for line in certificate.invariants}
    assert (verdicts["loss"], verdicts["causality"]) == (loss, causality)


# ---- on the terminal


def certificate(**changes: Any) -> ReplayCertificate:
    delays = figures(12, 0.0, 0.0125, 0.5)
    plain = ReplayCertificate(
        trace="runs/first/trace.jsonl",
        mode="strict",
        end="loop",
        use="obtained",
        delays={"computing": delays, "download": None, "upload": None, "suspension": None, "all": delays},
        beyond_the_recording=3,
        arrivals=9,
        arrivals_recorded=10,
        arrivals_common=8,
        arrivals_in_order=0.875,
        same_staleness=True,
        same_arrivals=False,
        same_model=True,
        model="cafe",
        losses_differ=0,
        transfers_common=9,
    )
    return msgspec.structs.replace(plain, **changes)


def test_a_replay_shows_how_exact_it_was() -> None:
    assert lines_of(replay=certificate()) == [
        "replay (strict) of runs/first/trace.jsonl:",
        "  12 delays off by p50 0.0000 ms, p99 12.5 ms; 3 beyond the recording (loop)",
        "  arrivals: 87.5% of 8 in the recorded order; the same sequence of staleness; the same final model",
    ]


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"same_model": False}, "another final model"),
        ({"same_model": None}, "no model to compare"),
        ({"same_staleness": False}, "another sequence of staleness"),
        ({"arrivals_in_order": None}, "arrivals: none to compare"),
        ({"arrivals_in_order": 1.0}, "100.0% of 8 in the recorded order"),
    ],
)
def test_a_replay_shows_its_differences(changes: dict[str, Any], fragment: str) -> None:
    assert fragment in lines_of(replay=certificate(**changes))[-1]


def test_a_replay_without_common_delays_shows_none() -> None:
    lines = lines_of(replay=certificate(delays={"all": None}))
    assert [line.split()[0] for line in lines] == ["replay", "arrivals:"]


def test_arrivals_that_were_not_recorded_do_not_count_as_in_order() -> None:
    """Two of the four came after the end of the recording: their order is unknown."""
    found = replay_certificate.compare(
        Observed(arrivals=arrivals("ab")), Observed(arrivals=arrivals("abab")), certificate()
    )
    assert "100.0% of 2 in the recorded order" in lines_of(replay=found)[-1]
