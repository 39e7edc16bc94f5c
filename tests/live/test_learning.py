from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from testbed import trace
from tests.live.runs import Outcome, complete, write_profile

pytestmark = pytest.mark.live

MIXED: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.05, "suspend": 0.1, "suspend_max": 1.0},
    {"profile": "rpi5", "link": "ethernet", "count": 2},
    {"profile": "phone-high", "link": "5g", "count": 2, "drop": 0.05},
]


@pytest.mark.parametrize("rule", ["asyncfeded", "fedasync", "fedavg"])
def test_a_mixed_fleet_learns_the_digits(rule: str, tmp_path: Path) -> None:
    profile = write_profile(
        tmp_path,
        strategy=rule,
        devices=MIXED,
        training={"steps": 10, "batch": 32, "lr": 0.1, "momentum": 0.5},
        stop={"seconds": 90, "target_accuracy": 0.9},
    )
    outcome = complete(profile)
    assert outcome.code == 0
    assert outcome.summary["stopped"] == "accuracy 0.9 is reached"
    assert outcome.summary["best_accuracy"] >= 0.9


Fate = tuple[str, int, bool, float]


def fates(outcome: Outcome) -> dict[str, dict[tuple[int, str], list[Fate]]]:
    """By device, then by (number of its job, direction): each attempt's number, loss and asked time."""
    jobs: dict[str, list[int]] = defaultdict(list)
    found: dict[str, dict[tuple[int, str], list[Fate]]] = defaultdict(lambda: defaultdict(list))
    for event in outcome.events:
        if isinstance(event, trace.Dispatched):
            jobs[event.device].append(event.ticket)
        elif isinstance(event, (trace.Downloaded, trace.Uploaded)):
            kind = type(event).__name__
            place = jobs[event.device].index(event.ticket), kind
            found[event.device][place].append((kind, event.attempt, event.dropped, event.asked))
    return found


def test_two_rules_with_the_same_seed_meet_the_same_faults(tmp_path: Path) -> None:
    groups = [{"profile": "phone-high", "name": "phone", "link": "lte", "count": 3, "drop": 0.3, "on_drop": "retry"}]
    outcomes = []
    for rule in ("fedasync", "fedavg"):
        folder = tmp_path / rule
        folder.mkdir()
        profile = write_profile(folder, strategy=rule, seed=5, devices=groups, stop={"seconds": 3})
        outcomes.append(complete(profile))
    assert [outcome.code for outcome in outcomes] == [0, 0]
    one, other = map(fates, outcomes)
    assert one.keys() == other.keys() == {"phone-1", "phone-2", "phone-3"}
    compared: list[Fate] = []
    for device in one:
        for place in one[device].keys() & other[device].keys():
            # the last job of a run may have been cut off between two attempts
            pairs = list(zip(one[device][place], other[device][place], strict=False))
            assert [pair[0] for pair in pairs] == [pair[1] for pair in pairs]
            compared += [pair[0] for pair in pairs]
    assert len(compared) >= 12
    assert {dropped for _, _, dropped, _ in compared} == {True, False}
