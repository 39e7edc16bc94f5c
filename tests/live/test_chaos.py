"""The short form of ``make chaos``: twelve devices with kills, freezes, outages and garbage."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import verdict
from tests.chaos.plan import Settings, attacks
from tests.chaos.running import carry_out

pytestmark = pytest.mark.live

# it ends after a time, and no bound depends on the speed of the host
SHORT = Settings(seconds=15.0, devices=12, updates=None, slack=6.0, every=0.2, seed=3)


def test_a_run_survives_kills_freezes_outages_and_garbage(tmp_path: Path) -> None:
    seen = carry_out(SHORT, tmp_path)
    found = verdict.lines(seen)
    assert [line for line in found if line.holds is False] == []
    kinds = Counter(done.attack.do for done in seen.done)
    assert kinds["kill"] >= 3
    assert kinds["freeze"] >= 3
    assert seen.evaluators_killed >= 1
    assert {"forged", "flood", "huge", "mutated", "random", "replayed"} <= seen.garbage.keys()
    assert seen.outcome.summary["refused"] > 100
    assert seen.outcome.summary["applied"] > 100
    assert seen.outcome.summary["stopped"] == "15 seconds are over"


def test_the_same_seed_plans_the_same_attacks() -> None:
    assert attacks(SHORT) == attacks(SHORT)
    assert attacks(SHORT) != attacks(Settings(seconds=15.0, devices=12, updates=None, slack=6.0, every=0.2, seed=4))
