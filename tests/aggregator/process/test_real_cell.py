"""ASAFL with real devices and the real engine on one manual clock: rounds take their planned seconds."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.strategies.asafl.asafl import ASAFL
from testbed.history import trace
from testbed.profile.radio import Cell
from testbed.profile.schema import Direction
from tests.aggregator.process.test_real_devices import Together

CELL = Cell(bandwidth=100.0)
"""A model of 96 bits takes a second or so."""
CONTROLS = ("lyapunov", "fixed", "ascending", "descending", "greedy", "myopic")


class Smooth(Together):
    """Nothing is lost, and downloads take no time."""

    up = down = Direction()


class Lossy(Together):
    """The same, but a lost upload is given up."""

    on_drop = "give_up"


def strategy(control: str = "lyapunov", **changes: object) -> ASAFL:
    return ASAFL(control=control, rounds=100, budget=50.0, degree=2, high=4, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("allocation", ["optimal", "equal"])
@pytest.mark.parametrize("control", CONTROLS)
def test_a_round_takes_its_planned_seconds(control: str, allocation: str) -> None:
    together = Smooth(strategy(control, allocation=allocation), "wait", 0, CELL)
    together.run(until=40.0)
    plans, versions = together.of(trace.Planned), together.of(trace.Aggregated)
    assert len(versions) > 10
    for plan, version in zip(plans, versions, strict=False):
        assert version.t - plan.t == pytest.approx(plan.seconds, rel=1e-6, abs=2e-6)
        assert sum(plan.shares) == pytest.approx(1.0)
    spent = [plan.spent for plan in plans[1:]]
    assert spent == pytest.approx([version.t for version in versions])


def test_with_optimal_shares_all_uploads_of_a_round_end_together() -> None:
    together = Smooth(strategy("fixed"), "wait", 0, CELL)
    together.run(until=40.0)
    arrived = [event.t for event in together.of(trace.Arrived)]
    for first, second in zip(arrived[::2], arrived[1::2], strict=False):
        assert first == pytest.approx(second, abs=1e-6)


def test_a_device_outside_the_round_asks_and_waits() -> None:
    together = Smooth(strategy("fixed", allocation="equal"), "wait", 0, CELL)
    together.run(until=40.0)
    asked = together.of(trace.Asked)
    assert len(asked) > 5
    granted = {event.ticket: event.t for event in together.of(trace.Granted)}
    assert any(granted.get(event.ticket, event.t) > event.t + 0.1 for event in asked)
    assert together.of(trace.Rejected) == together.of(trace.Ignored) == together.of(trace.Lost) == []


@pytest.mark.parametrize("seed", range(5))
def test_both_kinds_of_memory_make_the_same_model_if_transfers_are_lost_and_given_up(seed: int) -> None:
    full, light = (Lossy(strategy(memory=memory), "wait", seed, CELL) for memory in ("full", "light"))
    for together in (full, light):
        together.run(until=90.0)
    assert len(full.of(trace.Lost)) > 5
    assert len(full.of(trace.Resent)) > 5
    assert light.engine.version == full.engine.version > 10
    np.testing.assert_allclose(light.engine.model, full.engine.model, rtol=1e-5)
    assert light.of(trace.Rejected) == []


def test_the_channel_of_a_round_is_the_same_under_any_control() -> None:
    """Rates per share depend only on seed, device and version."""

    def channels(control: str) -> dict[tuple[str, int], float]:
        together = Smooth(strategy(control), "wait", 3, CELL)
        together.run(until=30.0)
        version, found = 0, dict[tuple[str, int], float]()
        for event in together.trace:
            if isinstance(event, trace.Aggregated):
                version = event.version
            elif isinstance(event, trace.Granted):
                found[event.device, version] = event.rate / event.share
        return found

    one, other = channels("fixed"), channels("myopic")
    common = one.keys() & other.keys()
    assert len(common) > 10
    assert {place: one[place] for place in common} == pytest.approx({place: other[place] for place in common})
