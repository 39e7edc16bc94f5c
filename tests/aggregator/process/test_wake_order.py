"""A wake at once comes before everything else of its moment: the other half of a message, or the next lost device."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from aggregator.pacing import EveryUpdate
from aggregator.strategies.per_round.fedavg import FedAvg
from aggregator.strategy import Decision, Server
from testbed.history import trace
from testbed.wire.messages import Hello
from tests.aggregator.process.test_main import World, first_updates, folder, of, run, time
from tests.devices.parts import Time

__all__ = ["folder", "time"]  # fixtures
RESTARTED = Hello(device="host-1", pid=os.getpid(), cores=(1,), samples=5)


@dataclass(kw_only=True)
class WakesAtOnce(EveryUpdate):
    """Asks for a wake at once when a device leaves or joins, and notes in which order it gets events."""

    given: list[str] = field(default_factory=list)

    def on_join(self, device: str, server: Server) -> Decision:
        self.given.append(f"join of {device}")
        return msgspec.structs.replace(super().on_join(device, server), wake_at=server.now)

    def on_leave(self, device: str, server: Server) -> Decision:
        self.given.append(f"leave of {device}")
        return msgspec.structs.replace(super().on_leave(device, server), wake_at=server.now)

    def on_wake(self, server: Server) -> Decision:
        self.given.append("wake")
        return Decision()


def test_the_join_of_a_restarted_device_does_not_overtake_the_wake_after_its_leave(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, strategy = World(time), WakesAtOnce()
    world.at(0.5, "host-1", RESTARTED)
    run(world, folder, monkeypatch, strategy=strategy)
    assert strategy.given == ["leave of host-1", "wake", "join of host-1", "wake"]


def test_the_second_of_two_lost_devices_does_not_overtake_the_wake_after_the_first(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = WakesAtOnce()
    monkeypatch.setattr("aggregator.connections.lost_devices.ExitWatch.ended", lambda watch: ["host-1", "host-2"])
    monkeypatch.setattr("aggregator.connections.peers.is_computing", lambda pid: False)
    events = run(World(time), folder, monkeypatch, "presence.timeout=100", strategy=strategy)
    one, other = of(trace.Left, events)
    assert one.t == other.t
    assert strategy.given == ["leave of host-1", "wake", "leave of host-2", "wake"]


def test_a_device_whose_leave_ends_the_run_does_not_join_again(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round waits for host-1 only, so its leave makes the last version."""
    world = World(time)
    first_updates(world, host_2=0.5)
    world.at(0.75, "host-1", RESTARTED)
    events = run(world, folder, monkeypatch, "stop.versions=1", strategy=FedAvg())
    assert [event.version for event in of(trace.Aggregated, events)] == [1]
    assert [event.device for event in of(trace.Joined, events)] == ["host-1", "host-2"]
    assert [event.reason for event in of(trace.Stopped, events)] == ["version 1 is reached"]
