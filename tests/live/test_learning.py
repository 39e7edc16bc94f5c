from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from aggregator.strategies import STRATEGIES
from testbed.history import trace
from tests.live.runs import ROOT, Outcome, complete, write_profile

pytestmark = pytest.mark.live

QUICKSTART = ROOT / "profiles" / "experiments" / "quickstart.toml"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_quickstart_learns_with_every_strategy(strategy: str, tmp_path: Path) -> None:
    profile = tmp_path / "quickstart.toml"
    profile.write_text(QUICKSTART.read_text(encoding="utf-8"), encoding="utf-8")
    extra: tuple[str, ...] = ("--set", "strategy.interval=1") if strategy in ("audg", "psurdg") else ()
    if STRATEGIES[strategy].grants:  # a cell as in the paper
        # and half of the fleet in each round: with K_t = 1 as on a slow host, η·G_n of the slowest device counts in a
        # dozen versions, and training at this rate of learning may diverge
        control = ("--set", "strategy.control=fixed", "--set", "strategy.degree=4")
        extra = ("--set", "cell.radius=500", "--set", "strategy.budget=300", *control)
    options = ("--strategy", strategy, *extra, "--seconds", "240", "--set", "stop.target_accuracy=0.8")
    outcome = complete(profile, *options)
    assert outcome.code == 0
    assert outcome.summary["devices"] == 8
    assert outcome.summary["stopped"] == "accuracy 0.8 is reached"
    counted = outcome.recount()
    assert {end: outcome.summary[end] for end in counted} == counted


Attempt = tuple[str, int, bool, float]


def attempts(outcome: Outcome) -> dict[str, dict[tuple[int, str], list[Attempt]]]:
    """Device → (number of its job, direction) → number, loss and asked time of each attempt."""
    jobs: dict[str, list[int]] = defaultdict(list)
    found: dict[str, dict[tuple[int, str], list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    for event in outcome.events:
        if isinstance(event, trace.Dispatched):
            jobs[event.device].append(event.ticket)
        elif isinstance(event, (trace.Downloaded, trace.Uploaded)):
            kind = type(event).__name__
            place = jobs[event.device].index(event.ticket), kind
            found[event.device][place].append((kind, event.attempt, event.dropped, event.asked))
    return found


def test_two_strategies_with_the_same_seed_have_the_same_faults(tmp_path: Path) -> None:
    groups = [{"profile": "phone-low", "name": "phone", "link": "lte", "count": 3, "drop": 0.3, "on_drop": "retry"}]
    outcomes = []
    for strategy, versions in {"fedasync": 12, "fedavg": 4}.items():
        folder = tmp_path / strategy
        folder.mkdir()
        profile = write_profile(folder, strategy=strategy, seed=5, devices=groups, stop={"versions": versions})
        outcomes.append(complete(profile))
    assert [outcome.code for outcome in outcomes] == [0, 0]
    one, other = map(attempts, outcomes)
    assert one.keys() == other.keys() == {"phone-1", "phone-2", "phone-3"}
    compared: list[Attempt] = []
    for device in one:
        for place in one[device].keys() & other[device].keys():
            # the end of a run may fall between two attempts of its last job
            pairs = list(zip(one[device][place], other[device][place], strict=False))
            assert [pair[0] for pair in pairs] == [pair[1] for pair in pairs]
            compared += [pair[0] for pair in pairs]
    assert len(compared) >= 12
    assert {dropped for _, _, dropped, _ in compared} == {True, False}


def test_idle_devices_get_no_model_and_every_device_has_its_turn(tmp_path: Path) -> None:
    strategy = {"name": "fedasync", "in_flight": 2, "sampling": "round-robin"}
    groups = [{"profile": "phone-low", "name": "phone", "count": 6}]
    outcome = complete(write_profile(tmp_path, strategy=strategy, devices=groups, stop={"versions": 24}))
    assert outcome.code == 0
    busy, jobs = set[str](), Counter[str]()
    for event in outcome.events:
        if isinstance(event, trace.Dispatched):
            busy.add(event.device)
            jobs[event.device] += 1
            assert len(busy) <= 2
        elif isinstance(event, trace.Arrived):
            busy.remove(event.device)
    assert jobs.keys() == {f"phone-{number}" for number in range(1, 7)}
    assert max(jobs.values()) - min(jobs.values()) <= 1
