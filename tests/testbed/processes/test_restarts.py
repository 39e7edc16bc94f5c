"""The policies of restarts, and the schedule of kills and forks."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from testbed.common.errors import ProfileError
from testbed.loading.profile_loader import load
from testbed.processes.restarts import (
    LONGEST_WAIT,
    MOST_EVALUATORS,
    STEADY_SECONDS,
    EvaluatorRestarts,
    Restarts,
    Schedule,
)
from testbed.profile.schema import StopWhen
from testbed.profile.script import ScheduledAction
from tests.testbed.examples import MINIMAL, write_profile


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        ("never", [None, None]),
        (0, [None, None]),
        (1, [1.0, None, None]),
        (3, [1.0, 2.0, 4.0, None]),
        ("always", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 32.0]),
    ],
)
def test_a_device_is_restarted_as_often_as_the_policy_says_with_growing_waits(
    policy: int | str, waits: list[float | None]
) -> None:
    restarts = Restarts(policy)
    assert [restarts.after_death("a", float(number)) for number, _ in enumerate(waits)] == waits


def test_restarts_are_counted_for_each_device() -> None:
    restarts = Restarts(1)
    assert [restarts.after_death(name, 0.0) for name in ("a", "b", "a", "b")] == [1.0, 1.0, None, None]


@pytest.mark.parametrize(("lived", "then"), [(STEADY_SECONDS - 1, 8.0), (STEADY_SECONDS + 1, 1.0)])
def test_a_device_that_stays_alive_for_a_while_has_recovered(lived: float, then: float) -> None:
    restarts = Restarts("always")
    for _ in range(3):
        restarts.after_death("a", 0.0)
    restarts.began("a", 100.0)
    assert restarts.after_death("a", 100.0 + lived) == then


def test_a_device_that_keeps_dying_is_restarted_after_the_longest_wait() -> None:
    restarts = Restarts("always")
    assert [restarts.after_death("a", 0.0) for _ in range(5000)][-1] == LONGEST_WAIT


def evaluators(folder: Path, stop: str = "stop.seconds = 5", *overrides: str) -> EvaluatorRestarts:
    return EvaluatorRestarts(load(write_profile(folder, f"{stop}\n{MINIMAL}"), overrides))


def test_no_evaluator_is_forked_after_five_that_scored_nothing(tmp_path: Path) -> None:
    one = evaluators(tmp_path)
    assert [one.after_death(7) for _ in range(MOST_EVALUATORS)] == [1.0, 2.0, 4.0, 8.0, None]


def test_a_score_resets_the_wait_before_the_next_restart(tmp_path: Path) -> None:
    one = evaluators(tmp_path)
    found = [one.after_death(version) for version in (7, 7, 7, 7, 8, 8, 8, 8, 8)]
    assert found == [1.0, 2.0, 4.0, 8.0, 1.0, 2.0, 4.0, 8.0, None]


@pytest.mark.parametrize(
    ("stop", "needed"),
    [
        (StopWhen(seconds=5.0, target_accuracy=0.9), False),
        (StopWhen(versions=5, patience=3), False),
        (StopWhen(target_accuracy=0.9), True),
        (StopWhen(patience=3), True),
    ],
)
def test_a_run_that_only_a_score_can_end_needs_an_evaluator(tmp_path: Path, stop: StopWhen, needed: bool) -> None:
    keys = {name: getattr(stop, name) for name in ("seconds", "versions", "target_accuracy", "patience")}
    text = ", ".join(f"{name} = {value}" for name, value in keys.items() if value is not None)
    assert evaluators(tmp_path, f"stop = {{ {text} }}").needed == needed


def test_a_replay_that_ends_with_its_recording_needs_no_evaluator(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("", encoding="utf-8")
    stop, recorded = "stop = { target_accuracy = 0.9 }", f"replay.trace={tmp_path / 'trace.jsonl'}"
    assert evaluators(tmp_path, stop, recorded).needed
    assert not evaluators(tmp_path, stop, recorded, "replay.end=stop").needed
    assert not evaluators(tmp_path, stop, recorded, "replay.mode=strict").needed


# ---- the schedule


def act(moment: float, do: str, device: str = "a") -> ScheduledAction:
    return ScheduledAction(moment=moment, at=moment, device=device, do=do)


def test_actions_are_returned_in_order_whenever_they_were_added() -> None:
    schedule = Schedule([act(5.0, "kill"), act(1.0, "kill", "b")])
    schedule.add(act(3.0, "restart", "c"))
    assert schedule.next == 1.0
    assert [schedule.take().device for _ in range(3)] == ["b", "c", "a"]
    assert schedule.next == math.inf


def test_a_scripted_kill_cancels_a_restart_but_no_rejoin_and_no_other_device() -> None:
    schedule = Schedule([act(1.0, "kill"), act(9.0, "rejoin")])
    schedule.add(act(2.0, "restart"))
    schedule.add(act(3.0, "restart", "b"))
    assert [(schedule.take().do, schedule.next) for _ in range(3)] == [
        ("kill", 3.0),
        ("restart", 9.0),
        ("rejoin", math.inf),
    ]


def test_a_schedule_knows_which_processes_it_forks_again() -> None:
    schedule = Schedule([act(1.0, "kill"), act(2.0, "restart", "b")])
    assert (schedule.forks_any({"a"}), schedule.forks_any({"b"})) == (False, True)
    schedule.drop({"b"})
    assert (schedule.forks_any({"b"}), schedule.next) == (False, 1.0)


# ---- the key


@pytest.mark.parametrize("value", ["never", "always", "0", "3"])
def test_a_profile_may_set_the_policy(tmp_path: Path, value: str) -> None:
    experiment = load(write_profile(tmp_path, MINIMAL), [f"presence.restart={value}"])
    assert str(experiment.presence.restart) == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("allways", "is 'allways'; did you mean 'always'"),
        ("-1", "is -1; it must be at least 0, or never, always"),
        ("1.5", "is 1.5; it must be a whole number or a string"),
        ("true", "is True; it must be a whole number"),
    ],
)
def test_any_other_policy_is_refused_with_a_remedy(tmp_path: Path, value: str, problem: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load(write_profile(tmp_path, MINIMAL), [f"presence.restart={value}"])
    assert f"presence.restart {problem}" in str(caught.value)
