"""Real runs are recomputed from their folders. Tests of other things verify their runs, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.strategies import STRATEGIES
from testbed.history import trace
from tests.live.runs import command, complete, complete_and_verify, write_profile

pytestmark = pytest.mark.live

ELSEWHERE = {"asafl", "eafl", "audg", "psurdg"}
"""They need a cell, many devices or ticks, and have tests of their own, which verify all runs."""
PARAMETERS: dict[str, dict[str, Any]] = {"krum": {"k": 3}, "median": {"k": 3}, "trimmed-mean": {"k": 4}}
"""Of strategies that wait for more updates by default than this fleet has devices."""
FLEET: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.2, "suspend": 0.3, "suspend_max": 0.2},
    {"profile": "phone-low", "name": "phone", "link": "5g", "count": 2, "drop": 0.2, "on_drop": "give_up"},
]


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - ELSEWHERE))
def test_a_run_of_this_strategy_is_verified(strategy: str, tmp_path: Path) -> None:
    chosen = {"name": strategy} | PARAMETERS.get(strategy, {})
    outcome = complete_and_verify(write_profile(tmp_path, strategy=chosen, devices=FLEET, stop={"versions": 8}))
    assert outcome.summary["versions"] >= 8


def test_a_run_with_poisoned_updates_is_verified(tmp_path: Path) -> None:
    poison = [
        {"at": 0.0, "device": "phone", "do": "poison", "how": "sign-flip", "value": 2.0},
        {"at": 0.0, "device": "rpi4-1", "do": "poison", "how": "noise", "value": 1.0, "seconds": 2.0},
    ]
    changes: dict[str, Any] = {"devices": FLEET, "events": poison, "stop": {"versions": 12}}
    outcome = complete_and_verify(write_profile(tmp_path, **changes))
    assert {event.how for event in outcome.of_kind(trace.Poisoned)} == {"sign-flip", "noise"}


@pytest.mark.parametrize("method", ["int8", "topk:0.05"])
def test_a_run_with_compressed_updates_is_verified(method: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"devices": FLEET, "compress_updates": method, "stop": {"versions": 16}}
    outcome = complete_and_verify(write_profile(tmp_path, **changes))
    assert {event.compress_updates for event in outcome.of_kind(trace.Joined)} == {method}


def test_the_command_verifies_all_runs_of_a_folder_and_names_a_departure(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, stop={"versions": 6}))
    done = command("verify", "--all", str(tmp_path), "--format", "json")
    [result] = json.loads(done.stdout)["runs"]
    assert (done.returncode, result["verdict"]) == (0, "verified")
    assert result["model"] == outcome.summary["model_sha256"]
    profile = outcome.folder / "profile.toml"
    profile.write_text(profile.read_text(encoding="utf-8").replace("seed = 1\n", "seed = 2\n", 1), encoding="utf-8")
    done = command("verify", str(outcome.folder))
    assert done.returncode == 1
    assert "departs at line 1, header: expected seed 2, found 1" in done.stdout
