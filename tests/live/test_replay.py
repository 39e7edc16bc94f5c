"""A run is recorded once and replayed: strictly, and with another strategy until the recording is used up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.history import trace
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, complete_and_verify, write_profile

pytestmark = pytest.mark.live

GROUPS: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.25, "suspend": 0.3, "suspend_max": 0.2},
    {"profile": "phone-low", "name": "phone", "link": "5g", "count": 2, "drop": 0.2},
]
AWAY: dict[str, Any] = {"at": 0.5, "device": "rpi4-1", "do": "suspend", "seconds": 0.25}
POISON: dict[str, Any] = {"at": 1.0, "device": "phone", "do": "poison", "how": "noise", "value": 0.5}
"""Only in the recorded run."""
BACK = 0.75


@dataclass(frozen=True, kw_only=True)
class Runs:
    recorded: Outcome
    strict: list[Outcome]
    changed: Outcome
    """Strict, with another learning rate, which the trace does not record."""
    other: Outcome
    """With another strategy, in mode schedule, until a recording is used up."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    def run(*options: str, **changes: Any) -> Outcome:
        folder = tmp_path_factory.mktemp("replay")
        return complete_and_verify(write_profile(folder, devices=GROUPS, stop={"seconds": 2.0}, **changes), *options)

    with nothing_left_over():
        recorded = run(events=[AWAY, POISON])
        file, other = str(recorded.folder / "trace.jsonl"), ("--strategy", "fedbuff", "--seconds", "600")
        yield Runs(
            recorded=recorded,
            strict=[run("--replay", str(recorded.folder), "--replay-mode", "strict") for _ in range(2)],
            changed=run("--replay", file, "--replay-mode", "strict", "--set", "training.lr=0.05"),
            other=run("--replay", file, "--set", "replay.end=stop", *other),
        )


def staleness(outcome: Outcome) -> list[tuple[str, int]]:
    return [(event.device, event.staleness) for event in outcome.of_kind(trace.Arrived)]


def asked(outcome: Outcome) -> dict[tuple[str, str, int, int], tuple[float, bool]]:
    """The asked seconds of each attempt at a transfer, and whether it was lost.

    An absence makes the transfer longer that is under way when it begins. Which one that is depends on how late the
    host computed the steps before.
    """
    return {
        (type(event).__name__, event.device, event.job, event.attempt): (event.asked, event.dropped)
        for event in [*outcome.of_kind(trace.Downloaded), *outcome.of_kind(trace.Uploaded)]
        if event.device != AWAY["device"] or event.sent + event.asked < AWAY["at"] or event.sent > BACK
    }


def verdicts(outcome: Outcome) -> dict[str, str]:
    return {line["name"]: line["verdict"] for line in outcome.summary["fidelity"]["invariants"]}


def test_the_recorded_run_lost_transfers_and_was_suspended(runs: Runs) -> None:
    """Otherwise there would be little to replay."""
    assert (runs.recorded.code, runs.recorded.stderr) == (0, "")
    assert len(runs.recorded.of_kind(trace.Arrived)) >= 20
    assert any(event.dropped for event in runs.recorded.of_kind(trace.Downloaded))
    assert any(event.dropped for event in runs.recorded.of_kind(trace.Uploaded))
    assert runs.recorded.of_kind(trace.Suspended)
    assert runs.recorded.summary["replay"] is None


@pytest.mark.parametrize("number", [0, 1])
def test_a_strict_replay_ends_where_the_recorded_run_did_with_the_same_model(runs: Runs, number: int) -> None:
    outcome, recorded = runs.strict[number], runs.recorded
    assert (outcome.code, outcome.stderr) == (0, "")
    certificate = outcome.summary["replay"]
    same = [certificate[what] for what in ("same_arrivals", "same_staleness", "same_model")]
    assert same == [True, True, True]
    assert certificate["arrivals_in_order"] == 1.0
    assert outcome.json("replay.json") == certificate
    assert outcome.summary["stopped"] == "the recording is over"
    assert outcome.summary["versions"] == recorded.summary["versions"]
    checkpoints = [run.folder / "checkpoints" / "final.safetensors" for run in (outcome, recorded)]
    assert checkpoints[0].read_bytes() == checkpoints[1].read_bytes()


@pytest.mark.parametrize("number", [0, 1])
def test_in_a_strict_replay_every_update_has_its_recorded_staleness_and_loss(runs: Runs, number: int) -> None:
    assert staleness(runs.strict[number]) == staleness(runs.recorded)
    assert [event.loss for event in runs.strict[number].of_kind(trace.Arrived)] == [
        event.loss for event in runs.recorded.of_kind(trace.Arrived)
    ]


def test_a_strict_replay_that_makes_another_model_fails(runs: Runs) -> None:
    outcome = runs.changed
    assert outcome.code == 1
    assert "error: the replay differs from the recorded run in: local losses, final model" in outcome.stderr
    assert staleness(outcome) == staleness(runs.recorded)


def common(runs: Runs, outcome: Outcome) -> set[tuple[str, str, int, int]]:
    both = asked(runs.recorded).keys() & asked(outcome).keys()
    assert len(both) >= 20
    return both


def test_every_job_has_its_recorded_delays_and_drops(runs: Runs) -> None:
    before = asked(runs.recorded)
    for outcome in (*runs.strict, runs.other):
        after = asked(outcome)
        assert {place: after[place] for place in common(runs, outcome)} == {
            place: before[place] for place in common(runs, outcome)
        }


def test_every_job_has_its_recorded_suspension(runs: Runs) -> None:
    def suspensions(outcome: Outcome) -> dict[tuple[str, int], tuple[int, float]]:
        job_of = {event.ticket: event.job for event in outcome.of_kind(trace.Downloaded)}
        return {
            (event.device, job_of[event.ticket]): (event.steps, event.asked)
            for event in outcome.of_kind(trace.Suspended)
            if not event.away
        }

    before = suspensions(runs.recorded)
    for outcome in (*runs.strict, runs.other):
        after = suspensions(outcome)
        both = before.keys() & after.keys()
        assert both
        assert {place: after[place] for place in both} == {place: before[place] for place in both}


def test_every_job_has_its_recorded_poison_although_the_profile_has_none(runs: Runs) -> None:
    def poisoned(outcome: Outcome) -> dict[tuple[str, int], bool]:
        """Whether each job was poisoned, by device and number."""
        those = {event.ticket for event in outcome.of_kind(trace.Poisoned)}
        return {(event.device, event.job): event.ticket in those for event in outcome.of_kind(trace.Uploaded)}

    before = poisoned(runs.recorded)
    assert {device for (device, _), is_poisoned in before.items() if is_poisoned} == {"phone-1", "phone-2"}
    assert not all(before[place] for place in before if place[0] == "phone-1")
    for outcome in (*runs.strict, runs.other):
        after = poisoned(outcome)
        both = before.keys() & after.keys()
        assert {place: after[place] for place in both} == {place: before[place] for place in both}
    rows = {row["device"]: int(row["poisoned"]) for row in runs.recorded.csv("devices.csv")}
    assert rows["rpi4-1"] == rows["rpi4-2"] == 0
    assert sum(rows.values()) == len(runs.recorded.of_kind(trace.Poisoned))


def test_a_device_has_its_recorded_absence_although_the_profile_has_none(runs: Runs) -> None:
    for outcome in (runs.recorded, *runs.strict, runs.other):
        away = [event for event in outcome.of_kind(trace.Suspended) if event.away]
        first = min(away, key=lambda event: event.t)  # a recording that is repeated has the absence once more
        began = first.t - first.obtained
        assert (first.device, began + first.asked) == ("rpi4-1", pytest.approx(0.75))
        assert began >= 0.5 - 1e-9  # later, if the device was suspended at that moment: a crowded host delays its steps


def test_another_strategy_has_the_same_delays_and_makes_another_model(runs: Runs) -> None:
    outcome = runs.other
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.summary["strategy"] == "fedbuff"
    certificate = outcome.summary["replay"]
    assert (certificate["mode"], certificate["same_model"]) == ("schedule", False)
    assert certificate["delays"]["all"]["count"] >= 20


def test_a_replay_may_end_when_a_recording_is_used_up(runs: Runs) -> None:
    outcome = runs.other
    device = outcome.summary["stopped"].removeprefix("the recording of ").removesuffix(" is used up")
    jobs = 1 + max(event.job for event in runs.recorded.of_kind(trace.Downloaded) if event.device == device)
    delivered = [event for event in outcome.of_kind(trace.Arrived) if event.device == device]
    assert len(delivered) <= jobs
    assert max(event.job for event in outcome.of_kind(trace.Downloaded) if event.device == device) <= jobs


def test_the_trace_of_a_replay_names_its_mode_and_loss_is_not_measured(runs: Runs) -> None:
    for outcome, mode in ((runs.recorded, ""), (runs.strict[0], "strict"), (runs.other, "schedule")):
        [header] = outcome.of_kind(trace.Header)
        assert header.replay == mode
        assert verdicts(outcome)["loss"] == ("not measured" if mode else "PASS")
        assert verdicts(outcome)["causality"] == "PASS"


def test_a_replay_prints_how_similar_it_was(runs: Runs) -> None:
    for outcome in runs.strict:
        assert f"replay (strict) of {runs.recorded.folder}" in outcome.stdout
        assert "the same sequence of staleness; the same final model" in " ".join(outcome.stdout.split())


def test_a_strategy_with_ticks_that_broadcasts_its_final_model_is_replayed_strictly(tmp_path: Path) -> None:
    """Wakes come between the same arrivals as recorded; the broadcast is not part of the strategy."""
    devices = [{"profile": "rpi4", "link": "wifi", "phi": 0.5, "count": 3}]
    strategy = {"name": "audg", "interval": 0.25}
    changes: dict[str, Any] = {"devices": devices, "strategy": strategy, "stop": {"seconds": 2.0}}
    (tmp_path / "again").mkdir()
    with nothing_left_over():
        recorded = complete_and_verify(write_profile(tmp_path, **changes))
        options = ("--replay", str(recorded.folder), "--replay-mode", "strict")
        again = complete_and_verify(write_profile(tmp_path / "again", **changes), *options)
    assert (again.code, again.stderr) == (0, "")
    certificate = again.summary["replay"]
    assert [certificate[what] for what in ("same_arrivals", "same_staleness", "same_model")] == [True, True, True]
    assert again.summary["versions"] == recorded.summary["versions"] >= 6
    assert again.summary["final_model"]["on"] == 3


def test_updates_that_were_scaled_down_are_scaled_down_in_a_strict_replay(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def run(*options: str) -> Outcome:
        folder, bound = tmp_path_factory.mktemp("clip"), {"clip": 0.2}
        return complete_and_verify(
            write_profile(folder, aggregator=bound, devices=GROUPS[:1], stop={"seconds": 2.0}), "--no-report", *options
        )

    recorded = run()
    clipped = [(event.ticket, event.clipped) for event in recorded.of_kind(trace.Arrived)]
    assert recorded.summary["clipped"] == sum(norm is not None for _, norm in clipped) > 0
    replayed = run("--replay", str(recorded.folder), "--replay-mode", "strict")
    assert [(event.ticket, event.clipped) for event in replayed.of_kind(trace.Arrived)] == clipped
    assert replayed.json("replay.json")["same_model"] is True
