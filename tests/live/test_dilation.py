"""The same small run at dilation 0.5 and at dilation 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from testbed.history import trace
from testbed.loading.profile_loader import load
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, complete, write_profile

pytestmark = pytest.mark.live

DELAY = 0.05
CYCLES = {"quick-1": 0.75, "middling-1": 1.275, "slow-1": 1.95}
"""Seconds from one update of a device to its next. No two updates are due within a fifth of a second."""
SAMPLES = 4 * 32
VERSIONS = 6
TOLERANCE = 0.1


def group(device: str) -> dict[str, Any]:
    link = {"up": {"delay": DELAY}, "down": {"delay": DELAY}}
    seconds = (CYCLES[device] - 2 * DELAY) / SAMPLES
    return {"profile": {}, "name": device.removesuffix("-1"), "link": link, "seconds_per_sample": seconds}


def schedule() -> list[tuple[float, str]]:
    """The moments at which updates should arrive, and their devices."""
    return sorted((k * cycle, device) for device, cycle in CYCLES.items() for k in range(1, 6))[:VERSIONS]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[float, Outcome]]:
    """Dilation → the run."""
    found = {}
    with nothing_left_over():
        for dilation in (0.5, 2.0):
            profile = write_profile(
                tmp_path_factory.mktemp("dilated"),
                devices=[group(device) for device in CYCLES],
                task={"name": "digits", "split": "iid"},
                stop={"versions": VERSIONS},
                evaluation={"every": 1000.0},
            )
            found[dilation] = complete(profile, "--dilation", str(dilation), "--no-admission")
        yield found


@pytest.mark.timing
def test_updates_arrive_at_the_same_emulated_moments_and_in_the_same_order(outcomes: dict[float, Outcome]) -> None:
    expected = schedule()
    for outcome in outcomes.values():
        arrived = outcome.of_kind(trace.Arrived)
        assert outcome.code == 0
        assert [event.device for event in arrived] == [device for _, device in expected]
        assert [event.t for event in arrived] == pytest.approx([moment for moment, _ in expected], abs=TOLERANCE)


@pytest.mark.timing
def test_the_same_order_gives_the_same_model(outcomes: dict[float, Outcome]) -> None:
    one, other = (load_file(outcome.folder / "checkpoints" / "final.safetensors") for outcome in outcomes.values())
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_emulated_and_host_seconds_differ_by_the_dilation(outcomes: dict[float, Outcome]) -> None:
    for dilation, outcome in outcomes.items():
        summary = outcome.summary
        assert summary["dilation"] == outcome.json("meta.json")["dilation"] == dilation
        assert summary["host_seconds"] == pytest.approx(summary["seconds"] * dilation, abs=0.002)
        [row] = [row for row in outcome.csv("metrics.csv") if int(row["version"]) == VERSIONS]
        assert float(row["host_s"]) == pytest.approx(float(row["time_s"]) * dilation, abs=0.001)
        assert f"({summary['host_seconds']} s on this host)" in outcome.stdout


def test_a_stored_profile_says_at_which_dilation_it_was_run(outcomes: dict[float, Outcome]) -> None:
    assert {dilation: load(outcome.folder / "profile.toml").dilation for dilation, outcome in outcomes.items()} == {
        0.5: 0.5,
        2.0: 2.0,
    }
