"""Real devices and the real engine on one manual clock: their accounts agree."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from aggregator.engine.engine import Engine
from aggregator.engine.forecast import CellForecast
from aggregator.strategies.per_k.safl import SAFL
from aggregator.strategies.per_tick.audg import AUDG
from aggregator.strategies.per_tick.psurdg import PSURDG
from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategy import DeviceInfo, Strategy
from devices.device import Device
from testbed.emulation.faults import timetable
from testbed.history import trace
from testbed.profile.radio import Cell
from testbed.profile.schema import Direction
from testbed.wire.messages import Ask, Grant, Train
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import E, check_conservation, validated
from tests.devices.parts import SPEC, FakeTraining

HEARTBEAT_SECONDS = 1.0
SPEEDS = (1 / 640, 1 / 320, 1 / 128, 1 / 64)
"""Seconds per sample of the devices: a job of two steps takes 0.1 to 1 s."""


class Together:
    """Four devices that lose two downloads in five, and a third of their uploads. Messages take no time."""

    up, down, on_drop = Direction(delay=0.05, drop=1 / 3), Direction(delay=0.05, drop=0.4), "next_tick"

    def __init__(self, strategy: Strategy, on_lost_download: str, seed: int, cell: Cell | None = None) -> None:
        self.now, self._next_heartbeat = 0.0, HEARTBEAT_SECONDS
        self.trace: list[trace.Event] = []
        self._mail: list[tuple[str, Train | Grant]] = []
        specs = [
            dataclasses.replace(
                SPEC,
                name=f"d{index}",
                index=index,
                seconds_per_sample=speed,
                on_lost_download=on_lost_download,
                up=self.up,
                down=self.down,
                on_drop=self.on_drop,
                tick=0.5,
                distance=100.0 * (index + 1),
            )
            for index, speed in enumerate(SPEEDS)
        ]
        fleet = {spec.name: spec for spec in specs}
        self.engine = validated(
            Engine(
                strategy,
                np.zeros(3, np.float32),
                job=Job(steps=2),
                random=np.random.default_rng(0),
                send=lambda device, message: self._mail.append((device, message)),
                record=self.trace.append,
                forecast=CellForecast(cell, seed, fleet, dict.fromkeys(fleet, 128), 12) if cell is not None else None,
            )
        )
        self.devices: dict[str, Device] = {}
        for spec in specs:
            self.devices[spec.name] = Device(spec, timetable(spec, seed), samples=128, trainer=FakeTraining())
            keeps = on_lost_download == "old_base"
            self.engine.join(DeviceInfo(name=spec.name, samples=128, keeps_base=keeps), 0.0)
        self.engine.start(0.0)

    def run(self, until: float) -> None:
        """Run up to the moment ``until``."""
        while True:
            self._exchange()
            wake = self.engine.wake_at if self.engine.wake_at is not None else math.inf
            moment = min(wake, self._next_heartbeat, *(device.due() for device in self.devices.values()))
            if moment > until:
                return
            self.now = max(self.now, moment)
            if wake <= self.now:
                self.engine.wake(self.now)
            if self._next_heartbeat <= self.now:
                self._next_heartbeat += HEARTBEAT_SECONDS
                for device in self.devices.values():
                    self.engine.heartbeat(device.heartbeat(), self.now)
            check_conservation(self.engine)
            assert self.engine.models_kept <= 2 * len(self.devices) + 1

    def _exchange(self) -> None:
        """Exchange messages until no device and no strategy has anything left to do at this moment."""
        busy = True
        while busy:
            busy = bool(self._mail)
            mail, self._mail = self._mail, []
            for name, message in mail:
                if isinstance(message, Grant):
                    self.devices[name].receive_grant(message)
                elif isinstance(message, Train):
                    self.devices[name].receive(message, self.now)
            for device in self.devices.values():
                device.advance(self.now)
                while device.wants_step(self.now):
                    device.step()
                    device.stepped(self.now)
                    device.advance(self.now)
                    busy = True
                for said in device.outbox:
                    if isinstance(said, Ask):
                        self.engine.ask(said, self.now)
                    else:
                        self.engine.update(said, self.now)
                    busy = True
                device.outbox.clear()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.trace if isinstance(event, kind)]


RULES: dict[str, Callable[[], Strategy]] = {
    "fedasync": FedAsync,
    "safl": lambda: SAFL(k=2),
    "audg": lambda: AUDG(interval=0.5),
    "psurdg": lambda: PSURDG(interval=0.5),
}
every_rule = pytest.mark.parametrize("make", RULES.values(), ids=RULES.keys())


@pytest.mark.parametrize("seed", [0, 1, 2])
@every_rule
def test_an_update_on_an_old_base_is_never_rejected_and_names_its_base(make: Callable[[], Strategy], seed: int) -> None:
    together = Together(make(), "old_base", seed)
    together.run(until=60.0)
    sent = {event.ticket: event.version for event in together.of(trace.Dispatched)}
    arrived = together.of(trace.Arrived)
    old = [event for event in arrived if event.version != sent[event.ticket]]
    assert len(arrived) > 60
    assert len(old) > 0.2 * len(arrived)  # two downloads in five are lost, and the first of a device is sent again
    assert all(event.version < sent[event.ticket] for event in old)
    assert together.of(trace.Rejected) == together.of(trace.Lost) == together.of(trace.Ignored) == []
    bases, used = {event.ticket: event.version for event in arrived}, set[int]()
    for event in together.of(trace.Aggregated):
        fresh = [ticket for ticket in event.tickets if ticket not in used]
        assert event.staleness == [event.version - 1 - bases[ticket] for ticket in fresh]
        used.update(fresh)


@every_rule
def test_a_lost_model_is_sent_again_to_devices_that_wait(make: Callable[[], Strategy]) -> None:
    together = Together(make(), "wait", seed=0)
    together.run(until=60.0)
    sent = {event.ticket: event.version for event in together.of(trace.Dispatched)}
    arrived = together.of(trace.Arrived)
    assert len(arrived) > 40
    assert all(event.version == sent[event.ticket] for event in arrived)
    assert len(together.of(trace.Resent)) > 10
    assert together.of(trace.Rejected) == together.of(trace.Lost) == together.of(trace.Ignored) == []


@pytest.mark.parametrize("how", ["wait", "old_base"])
@every_rule
def test_the_final_model_reaches_every_device_however_often_it_is_lost(make: Callable[[], Strategy], how: str) -> None:
    resent = 0
    for seed in range(4):
        together = Together(make(), how, seed)
        together.run(until=10.25)
        version, ended = together.engine.version, len(together.trace)
        together.engine.broadcast_final(10.25)
        together.run(until=40.0)
        assert (together.engine.pending_final, together.engine.version) == (0, version)
        after = together.trace[ended:]
        finals = {event.ticket: event.device for event in after if isinstance(event, trace.Dispatched)}
        assert sorted(finals.values()) == sorted(together.devices)
        assert {event.ticket for event in after if isinstance(event, trace.Delivered)} == finals.keys()
        for ticket, name in finals.items():
            heartbeat = together.devices[name].heartbeat()
            assert (heartbeat.state, heartbeat.ticket, heartbeat.finished) == ("idle", 0, ticket)
        resent += sum(isinstance(event, trace.Resent) for event in after)
    assert resent >= 4  # sixteen final models, of which two in five are lost
