"""Scripted events in real runs: processes are killed, forked again or stopped at given moments."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from testbed.history import trace
from tests.live.runs import ROOT, Outcome, check_verified, complete, started, write_profile

pytestmark = pytest.mark.live

VICTIM = "rpi4-2"


def event(at: float, do: str, device: str = VICTIM, **more: float) -> dict[str, Any]:
    return {"at": at, "device": device, "do": do, **more}


def scripted(outcome: Outcome) -> list[tuple[str, str]]:
    return [(each.device, each.do) for each in outcome.of_kind(trace.Scripted)]


def arrivals(events: list[trace.Event]) -> list[float]:
    """The moments when updates of the victim were due."""
    return [each.due for each in events if isinstance(each, trace.Arrived) and each.device == VICTIM]


def accounts_balance(outcome: Outcome) -> bool:
    summary, count = outcome.summary, outcome.recount()
    return count["applied"] >= 3 and all(summary[name] == number for name, number in count.items())


@pytest.mark.parametrize(("timeout", "reason"), [(1.0, "it was silent for too long"), (60.0, "it was restarted")])
def test_a_device_that_is_killed_and_rejoins_is_a_new_process_and_trains_again(
    tmp_path: Path, timeout: float, reason: str
) -> None:
    profile = write_profile(
        tmp_path,
        events=[event(2.0, "kill"), event(5.0, "rejoin")],
        presence={"heartbeat": 0.25, "timeout": timeout},
    )
    with started(profile) as run:
        run.wait_until_traced("arrived", 3)
        first = run.members()[VICTIM]
        run.wait_until_traced("scripted")
        run.wait_for(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE, "its death")
        run.wait_for(lambda: [each for each in arrivals(run.events()) if each > 5.0], "an update after it rejoined")
        outcome = run.interrupt()
    check_verified(outcome)
    assert (outcome.code, outcome.stderr) == (130, "")  # no warning about scripted events
    assert scripted(outcome) == [(VICTIM, "kill"), (VICTIM, "rejoin")]
    killed, rejoined = outcome.of_kind(trace.Scripted)
    assert killed.t == 2.0
    assert rejoined.t >= 5.0

    joins = [each for each in outcome.of_kind(trace.Joined) if each.device == VICTIM]
    assert [each.t for each in joins] == [0.0, rejoined.t]
    assert joins[0].pid == first.pid != joins[1].pid
    [left] = outcome.of_kind(trace.Left)
    assert (left.device, left.reason) == (VICTIM, reason)
    [lost] = outcome.of_kind(trace.Lost)
    assert (lost.device, lost.t) == (VICTIM, left.t)
    assert accounts_balance(outcome)

    assert not [moment for moment in arrivals(outcome.events) if 2.0 < moment < 5.0]
    # the new process continues with the number after that of the lost job
    sent = [each.t for each in outcome.of_kind(trace.Dispatched) if each.device == VICTIM]
    jobs = [(each.sent, each.job) for each in outcome.of_kind(trace.Uploaded) if each.device == VICTIM]
    assert next(job for moment, job in jobs if moment > 5.0) == len([moment for moment in sent if moment < 5.0])
    [row] = [row for row in outcome.csv("devices.csv") if row["device"] == VICTIM]
    assert float(row["dead_s"]) == pytest.approx(rejoined.t - killed.t, abs=0.001)


def test_a_run_that_ends_while_devices_are_dead_ends_in_time(tmp_path: Path) -> None:
    script = [event(1.0, "kill", "*"), event(2.5, "rejoin", "rpi4-1"), event(9.5, "kill", "rpi4-1")]
    outcome = complete(write_profile(tmp_path, events=script, stop={"seconds": 10.0}))
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.summary["stopped"] == "10 seconds are over"
    assert outcome.summary["scripted"] == 5
    assert accounts_balance(outcome)
    # updates that were due before may be handled late on a busy host
    assert {each.device for each in outcome.of_kind(trace.Arrived) if each.due > 1.0} == {"rpi4-1"}


def test_ctrl_c_ends_a_run_that_waits_for_a_device_to_rejoin(tmp_path: Path) -> None:
    with started(write_profile(tmp_path, events=[event(1.0, "kill"), event(300.0, "rejoin")])) as run:
        run.wait_until_traced("scripted")
        run.process.send_signal(signal.SIGINT)
        outcome = run.finish()
    assert (outcome.code, outcome.stderr) == (130, "")
    assert scripted(outcome) == [(VICTIM, "kill")]
    assert accounts_balance(outcome)


def test_busy_and_idle_devices_are_suspended_at_the_scripted_moment(tmp_path: Path) -> None:
    """In rounds with a slow device, the fast one is idle until the next round."""
    groups = [
        {"profile": "rpi4", "link": "wifi", "name": "fast", "suspend_by": "signal"},
        {"profile": "rpi3bplus", "link": "wifi", "name": "slow", "schedule": [{"at": 0, "speed": 0.1}]},
    ]
    profile = write_profile(
        tmp_path,
        devices=groups,
        strategy="fedavg",
        events=[event(3.0, "suspend", "*", seconds=2.0)],
    )
    with started(profile) as run:
        run.wait_until_traced("arrived")
        fast = run.members()["fast-1"]
        run.wait_for(lambda: fast.status() == psutil.STATUS_STOPPED, "a device in state stopped")
        run.wait_until_traced("suspended", 2)
        made = run.traced().count('{"kind":"arrived",')
        run.wait_until_traced("arrived", made + 1)
        outcome = run.interrupt()
    check_verified(outcome)
    assert (outcome.code, outcome.stderr) == (130, "")
    assert sorted(scripted(outcome)) == [("fast-1", "suspend"), ("slow-1", "suspend")]
    assert {each.t for each in outcome.of_kind(trace.Scripted)} == {3.0}
    suspensions = {each.device: each for each in outcome.of_kind(trace.Suspended)}
    assert {name: suspension.asked for name, suspension in suspensions.items()} == {"fast-1": 2.0, "slow-1": 2.0}
    assert all(suspension.t >= 5.0 for suspension in suspensions.values())
    assert not [each for each in outcome.of_kind(trace.Arrived) if 3.0 < each.due < 5.0]
    assert [each for each in outcome.of_kind(trace.Arrived) if each.t > 5.0]
    assert accounts_balance(outcome)


def byzantine(folder: Path) -> Path:
    """The shipped experiment, whose runs are in this folder."""
    profile = folder / "byzantine.toml"
    shipped = ROOT / "profiles" / "experiments" / "byzantine.toml"
    profile.write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    return profile


def check_poisoned(outcome: Outcome) -> None:
    poisoned = {row["device"] for row in outcome.csv("devices.csv") if int(row["poisoned"])}
    assert poisoned == {"byzantine-1", "byzantine-2"}
    assert sorted(scripted(outcome)) == [("byzantine-1", "poison"), ("byzantine-2", "poison")]


def test_a_plain_mean_does_not_learn_beside_poisoned_devices(tmp_path: Path) -> None:
    def scores(events: list[trace.Event]) -> list[float]:
        return [each.metrics["accuracy"] for each in events if isinstance(each, trace.Scored) and each.version >= 6]

    with started(byzantine(tmp_path), "--set", "evaluation.every=0", "--seconds", "600") as run:
        run.wait_for(lambda: scores(run.events()), "the score of a version")
        outcome = run.interrupt()
    assert outcome.code == 130
    check_poisoned(outcome)
    assert max(scores(outcome.events)) < 0.5


@pytest.mark.parametrize("strategy", ["median", "trimmed-mean", "krum"])
def test_a_robust_mean_learns_beside_poisoned_devices(tmp_path: Path, strategy: str) -> None:
    robust = ("--strategy", strategy, "--set", "strategy.k=8")
    share = ("--set", "strategy.beta=0.25") if strategy == "trimmed-mean" else ()
    enough = ("--set", "stop.target_accuracy=0.8", "--set", "stop.versions=1000", "--seconds", "240")
    outcome = complete(byzantine(tmp_path), *robust, *share, *enough)
    assert outcome.code == 0
    check_poisoned(outcome)
    assert outcome.summary["stopped"] == "accuracy 0.8 is reached"
