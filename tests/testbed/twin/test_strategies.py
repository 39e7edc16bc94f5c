"""Each strategy of the catalogue on a virtual clock: its run is complete, and can be recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aggregator.strategies import STRATEGIES
from testbed.history import trace
from testbed.verification.verifying import verify
from tests.testbed.twin.virtual import MIXED, events_of, run_virtually

CELL = {"radius": 500, "bandwidth": 1e6, "power": 10, "noise": 1e-12, "gain": -30}
NEEDED: dict[str, dict[str, Any]] = {
    "asafl": {"strategy": {"name": "asafl", "rounds": 30, "budget": 20.0, "mu": 0.3}, "cell": CELL},
    "audg": {"strategy": {"name": "audg", "interval": 0.7}},
    "psurdg": {"strategy": {"name": "psurdg", "interval": 0.7}},
}
"""Strategy → the keys that it needs."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_of_thirty_seconds_is_verified(strategy: str, tmp_path: Path) -> None:
    changes = {"strategy": strategy} | NEEDED.get(strategy, {})
    outcome = run_virtually(tmp_path, devices=MIXED, stop={"seconds": 30.0}, evaluation={"every": 10.0}, **changes)
    assert (outcome.failure, outcome.exit_code) == (None, 0)
    result = verify(outcome.folder)
    assert (result.verdict, result.departure) == ("verified", None)
    assert result.versions >= 3
    assert sum(isinstance(event, trace.Arrived) for event in events_of(outcome)) > 10
