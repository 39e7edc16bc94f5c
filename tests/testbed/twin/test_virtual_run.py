"""A run on a virtual clock: exact moments, and the same run however it is computed."""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import Decision, Server
from testbed.common.errors import ProfileError
from testbed.history import trace
from testbed.runs.results.certificate import Verdict
from testbed.runs.stored_run import StoredRun
from testbed.twin import virtual_run
from testbed.verification.verifying import verify
from testbed.wire.messages import Update
from tests.testbed.twin.virtual import DEVICE, LINK, MIXED, events_of, experiment_of, run_virtually
from tests.testbed.verification.test_verifying import LOSSY, RUNS

CLUSTERS = {"name": "eafl", "clusters": 2, "every": 3}


def kinds(events: list[trace.Event]) -> Counter[str]:
    return Counter(type(event).__name__ for event in events)


def text_of(place: Path) -> list[str]:
    """The lines of a trace but the header, which has the moment at which the run was started."""
    return (place / "trace.jsonl").read_text().splitlines()[1:]


# ---- moments


def test_each_moment_follows_from_the_one_before(tmp_path: Path) -> None:
    """A single device: its download, its job of 32 samples, and its upload take as long as the profile says."""
    link = {"up": {"delay": 0.25}, "down": {"delay": 0.5}}
    device = DEVICE | {"profile": {"seconds_per_sample": 0.0625}, "link": link}
    events = events_of(run_virtually(tmp_path, devices=[device], stop={"seconds": 20.0}))
    arrived = [event for event in events if isinstance(event, trace.Arrived)]
    assert [event.t for event in arrived] == [2.75 * (number + 1) for number in range(7)]
    assert all((event.due, event.received, event.handled) == (event.t,) * 3 for event in arrived)
    assert {event.staleness for event in arrived} == {0}
    assert events[-1].t == 20.0


def test_a_synchronous_round_lasts_as_long_as_its_slowest_device(tmp_path: Path) -> None:
    devices = [
        DEVICE | {"name": f"d{number}", "profile": {"seconds_per_sample": seconds}, "link": LINK}
        for number, seconds in enumerate((0.01, 0.03, 0.02))
    ]
    events = events_of(run_virtually(tmp_path, strategy="fedavg", devices=devices))
    made = [event.t for event in events if isinstance(event, trace.Aggregated)]
    assert made == pytest.approx([(0.03 * 32 + 0.08) * number for number in range(1, len(made) + 1)])
    assert len(made) == 4


def test_updates_of_one_moment_arrive_in_fleet_order(tmp_path: Path) -> None:
    events = events_of(run_virtually(tmp_path, stop={"versions": 9}))
    arrived = [event.device for event in events if isinstance(event, trace.Arrived)]
    assert arrived == ["d-1", "d-2", "d-3"] * 3


# ---- the same run


def test_two_runs_and_any_number_of_processes_make_the_same_trace_and_model(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"devices": [LOSSY], "training": {"steps": 3, "batch": 8, "momentum": 0.5}}
    found = [run_virtually(tmp_path, jobs, out=str(at), **changes) for at, jobs in enumerate((1, 1, 2, 3))]
    texts = [text_of(outcome.folder) for outcome in found]
    assert len(texts[0]) > 100
    assert all(text == texts[0] for text in texts)
    assert len({outcome.summary.model_sha256 for outcome in found if outcome.summary is not None}) == 1


def test_what_a_device_keeps_from_job_to_job_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    training = {"steps": 2, "batch": 8, "optimizer": "adam", "lr": 0.01, "optimizer_state": "kept"}
    found = [run_virtually(tmp_path, jobs, out=str(jobs), training=training) for jobs in (1, 2)]
    assert text_of(found[0].folder) == text_of(found[1].folder)
    assert verify(found[0].folder).verdict == "verified"


@pytest.mark.parametrize("name", RUNS)
def test_a_run_on_a_virtual_clock_is_recomputed_bit_by_bit(name: str, tmp_path: Path) -> None:
    outcome = run_virtually(tmp_path, **RUNS[name])
    assert outcome.failure is None
    result = verify(outcome.folder)
    assert (result.departure, result.verdict, result.notes) == (None, "verified", [])
    assert result.versions >= 3


# ---- what happens to devices


def test_a_device_that_is_killed_leaves_when_it_was_silent_for_too_long_and_rejoins(tmp_path: Path) -> None:
    script = [{"at": 1.3, "device": "d-2", "do": "kill"}, {"at": 6.0, "device": "d-2", "do": "rejoin"}]
    outcome = run_virtually(
        tmp_path, events=script, presence={"heartbeat": 0.25, "timeout": 2.0}, stop={"seconds": 8.0}
    )
    of_device = [
        (type(event).__name__, event.t) for event in events_of(outcome) if getattr(event, "device", "") == "d-2"
    ]
    left = next(t for name, t in of_device if name == "Left")
    assert 3.2 < left < 3.5
    assert [t for name, t in of_device if name == "Joined"] == [0.0, 6.0]
    assert [t for name, t in of_device if name == "Scripted"] == [1.3, 6.0]
    assert not [t for name, t in of_device if name == "Arrived" and 1.3 < t < 6.0]
    assert verify(outcome.folder).verdict == "verified"


@pytest.mark.parametrize("how", ["hold", "signal"])
def test_a_suspended_device_continues(how: str, tmp_path: Path) -> None:
    script = [{"at": 1.0, "device": "d-1", "do": "suspend", "seconds": 3.0}]
    devices = [DEVICE | {"link": LINK, "count": 2, "suspend_by": how}]
    outcome = run_virtually(
        tmp_path, devices=devices, events=script, presence={"heartbeat": 0.25, "timeout": 1.0}, stop={"seconds": 8.0}
    )
    events = events_of(outcome)
    arrived = [event.t for event in events if isinstance(event, trace.Arrived) and event.device == "d-1"]
    assert not [t for t in arrived if 1.0 < t < 4.0]
    assert [t for t in arrived if t > 4.0]
    assert ("Left" in kinds(events)) == (how == "signal")  # a frozen device sends no heartbeats
    assert verify(outcome.folder).verdict == "verified"


@pytest.mark.slow
def test_clusters_form_and_their_heads_report(tmp_path: Path) -> None:
    outcome = run_virtually(tmp_path, strategy=CLUSTERS, devices=MIXED, stop={"seconds": 60.0})
    found = kinds(events_of(outcome))
    assert found["Grouped"] >= 2
    assert found["Adopted"] > 2
    assert verify(outcome.folder).verdict == "verified"


def test_a_recorded_run_is_replayed_and_a_strict_replay_makes_the_same_model(tmp_path: Path) -> None:
    first = run_virtually(tmp_path, devices=[LOSSY], out="first")
    for mode in ("schedule", "strict"):
        again = run_virtually(tmp_path, devices=[LOSSY], out=mode, replay={"trace": str(first.folder), "mode": mode})
        assert (again.failure, again.departure) == (None, None)
        assert again.summary is not None
        assert again.summary.replay is not None
    assert first.summary is not None
    assert again.summary.model_sha256 == first.summary.model_sha256


# ---- without training


def test_without_training_moments_staleness_and_bytes_are_the_same(tmp_path: Path) -> None:
    trained, timed = (
        run_virtually(tmp_path, out=compute, compute=compute, devices=[LOSSY]) for compute in ("train", "none")
    )
    moments = [
        [
            (event.t, event.device, event.staleness, event.bytes)
            for event in events_of(outcome)
            if isinstance(event, trace.Arrived)
        ]
        for outcome in (trained, timed)
    ]
    assert moments[0] == moments[1]
    assert timed.summary is not None
    assert (timed.summary.final_accuracy, timed.summary.bytes_up) == (None, trained.summary.bytes_up)  # type: ignore[union-attr]


# ---- the results, and the end


def test_results_say_that_nothing_was_measured(tmp_path: Path) -> None:
    run = StoredRun.open(run_virtually(tmp_path).folder)
    assert run.summary is not None
    assert run.meta is not None
    assert (run.summary.clock, run.meta.clock, run.header.clock) == ("virtual",) * 3
    assert run.summary.fidelity is not None
    assert run.summary.fidelity.verdict is Verdict.NOT_MEASURED
    assert {line.verdict for line in run.summary.fidelity.invariants[:-1]} == {Verdict.NOT_MEASURED}


def test_a_stop_signal_keeps_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chores, count = virtual_run.VirtualRun._do_chores, itertools.count(1)

    def interrupted(self: virtual_run.VirtualRun, now: float) -> None:
        if next(count) == 12:
            signal.raise_signal(signal.SIGINT)
        chores(self, now)

    monkeypatch.setattr(virtual_run.VirtualRun, "_do_chores", interrupted)
    outcome = run_virtually(tmp_path, stop={"seconds": 1e6})
    assert (outcome.signal, outcome.exit_code) == (signal.SIGINT, 130)
    assert outcome.summary is not None
    assert (outcome.summary.stopped, outcome.summary.applied > 0) == ("interrupted", True)


class Failing(FedAsync):
    """Fails at the third update."""

    def on_update(self, update: Update, server: Server) -> Decision:
        if update.ticket == 3:
            raise KeyError("oops")
        return super().on_update(update, server)


def test_a_strategy_that_fails_ends_the_run_with_a_sentence_and_a_log(tmp_path: Path) -> None:
    outcome = run_virtually(tmp_path, strategy=f"{__name__}:Failing")
    assert outcome.failure is not None
    assert "KeyError: 'oops'" in outcome.failure
    assert outcome.exit_code == 1
    assert "Traceback" in (outcome.folder / "logs" / "run.log").read_text()
    assert outcome.summary is not None
    assert outcome.summary.dispatched > 3


# ---- what has no meaning on a virtual clock


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": [{"profile": "host"}]}, "has no speed"),
        ({"devices": [{"name": "d", "profile": {"of_host": 0.5}}]}, "share of this host's speed"),
        ({"clock": "wall", "compute": "none"}, "only a run on a virtual clock"),
        ({"compute": "none", "stop": {"target_accuracy": 0.9}}, "no score ends a run"),
    ],
)
def test_what_has_no_meaning_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=message):
        experiment_of(tmp_path, **changes)
