"""A device that sends a finite update of huge numbers: the user learns what happened, or a bound prevents it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aggregator.process import status
from testbed.analysis import metrics
from testbed.analysis.totals import totals
from testbed.history import trace
from testbed.wire.messages import Train
from tests.aggregator.process.test_main import World, folder, of, run, time
from tests.devices.parts import Time
from tests.devices.tiny import TinyTask

__all__ = ["folder", "time"]  # fixtures


def world_with_insider(time: Time) -> World:
    """host-1 sends one update of 10¹⁷; devices that train on the model after it find no finite gradient."""
    world = World(time)

    def answer(device: str, train: Train) -> None:
        huge = float(np.abs(train.model).max()) > 1e10
        number = np.nan if huge else 1e17 if device == "host-1" and train.number == 1 else 0.01
        moment = train.sent + 0.1
        world.update(device, train, at=moment, due=moment, delta=np.full(TinyTask.SIZE, number, np.float32))

    world.on_train = answer
    return world


def test_the_terminal_and_the_summary_name_the_device_and_the_version(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = run(world_with_insider(time), folder, monkeypatch)
    [first] = of(trace.OutOfRange, events)[:1]
    arrived = next(event for event in of(trace.Arrived, events) if event.device == "host-1" and event.t > 0.15)
    made = next(event for event in of(trace.Aggregated, events) if arrived.ticket in event.tickets)
    assert (first.device, first.version) == ("host-1", made.version)
    assert first.t - arrived.t < 0.7
    shown = status.read(folder / "status.json")
    assert shown is not None
    assert "host-1" in shown.last_problem
    assert "set aggregator.clip" in shown.last_problem
    found = metrics.summary(totals(events))
    assert found.out_of_range is not None
    assert (found.out_of_range.device, found.out_of_range.version) == ("host-1", made.version)
    assert found.reasons["rejected: its delta is not finite: the model that it was trained on is out of range"] > 5


def test_with_a_bound_the_model_stays_in_range_and_no_update_is_rejected(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = run(world_with_insider(time), folder, monkeypatch, "aggregator.clip=1.0")
    assert of(trace.OutOfRange, events) == of(trace.Rejected, events) == []
    assert [event.device for event in of(trace.Arrived, events) if event.clipped is not None] == ["host-1"]
    assert metrics.summary(totals(events)).clipped == 1
    [header] = of(trace.Header, events)
    assert (header.clip, header.on_clip) == (1.0, "scale")
