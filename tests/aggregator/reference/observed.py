"""Random histories of a real engine, and what a reference must predict: the tickets, weights and model of each version.

A history is a fleet of imaginary devices with random speeds, samples, optima and faults. Its log has, in order, who
joined and left, every update with its delta, and every version. ``replayed`` passes that log to a reference
(``equations``), which has its own models in double precision, and compares.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from aggregator.strategy import DeviceInfo, Strategy
from testbed.history import trace
from testbed.wire.messages import Update
from tests.aggregator.imaginary import Fleet, ImaginaryDevice

F64 = npt.NDArray[np.float64]

EXACT = 2e-5
"""Largest relative difference: versions are in single precision, the reference is in double."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrival:
    """An update, as the printed equations use it."""

    device: str
    ticket: int
    base: int
    """The version that the device trained on."""
    t: float
    delta: F64
    samples: int
    seconds: float
    """From the received model to the finished result."""
    since: int


class Reference:
    """The printed equations of one strategy in double precision. ``x`` has every version so far."""

    waits: ClassVar[bool] = False
    """Whether a device waits for the version with its update: if it was restarted, its latest update counts."""

    def __init__(self, model: F64, **parameters: Any) -> None:
        self.x = [model]
        self.samples: dict[str, int] = {}
        """Of every device that has been present."""
        self.present: set[str] = set()
        self.parameters = parameters
        self.chosen: list[int] = []
        """The tickets of the version that is being compared, for strategies whose schedule has no equation."""

    @property
    def t(self) -> int:
        return len(self.x) - 1

    def tau(self, arrival: Arrival) -> int:
        return self.t - arrival.base

    def joined(self, device: str) -> None:
        """A device has joined, for the first time or again."""

    def left(self, device: str) -> None:
        """A device has left."""

    def grouped(self, head: str, members: list[str]) -> None:
        """A cluster has this head and these members from now on."""

    def version(self, pending: list[Arrival], now: float) -> tuple[F64, dict[int, float]]:
        """Return the next model, and ticket → weight, given the updates that await a decision."""
        raise NotImplementedError

    def arrived(self, arrival: Arrival) -> None:
        """An update has arrived and awaits a decision."""

    def sent(self, device: str, now: float) -> None:
        """A device was sent a model with a new ticket."""

    def steps(self, device: str) -> int | None:
        """Return the local steps of the device's next job; None if the strategy does not set them."""
        return None


class Log:
    """A fleet under a strategy, with everything that a reference needs."""

    def __init__(self, strategy: Strategy, seed: int, fleet: Callable[..., Fleet] = Fleet) -> None:
        random = np.random.default_rng(seed)
        devices = [_device(f"d{number}", random) for number in range(int(random.integers(2, 7)))]
        self.arrivals: dict[int, Arrival] = {}
        self.models: dict[int, F64] = {}
        self.fleet = fleet(strategy, devices, seed=seed)
        self.entries: list[trace.Event] = self.fleet.trace
        self._observe_updates()
        for device in devices:
            self._schedule_faults(device.name, random)
        self.fleet.run(until=float(random.uniform(10, 40)), check=self._keep_model)

    def _observe_updates(self) -> None:
        engine = self.fleet.engine
        self.first = engine.model.astype(np.float64)
        joined = [_joined(info) for info in engine.known.values()]
        self.entries[:0] = joined
        take, join = engine.update, engine.join

        def observed(update: Update, now: float, **moments: float) -> None:
            self.arrivals[update.ticket] = _arrival(update, now)
            take(update, now, **moments)

        def entered(info: DeviceInfo, now: float, trains: int | None = None) -> None:
            self.entries.append(_joined(info))
            join(info, now, trains)

        engine.update, engine.join = observed, entered  # type: ignore[method-assign]

    def _schedule_faults(self, name: str, random: np.random.Generator) -> None:
        if random.random() < 0.5:
            moment = float(random.uniform(1, 8))
            self.fleet.at(moment, self.fleet.kill, name)
            self.fleet.at(moment + float(random.uniform(0.1, 5)), self.fleet.restart, name)
        if random.random() < 0.3:
            self.fleet.at(float(random.uniform(14, 20)), self.fleet.silence, name)

    def _keep_model(self, engine: Any) -> None:
        self.models[engine.version] = engine.model.astype(np.float64)


def replayed(log: Log, reference: Reference) -> int:
    """Pass a log to a reference. Return the number of versions; raise AssertionError at the first difference."""
    pending: dict[int, Arrival] = {}
    for event in log.entries:
        match event:
            case trace.Joined():
                reference.samples[event.device] = event.samples
                reference.present.add(event.device)
                reference.joined(event.device)
            case trace.Left():
                reference.present.discard(event.device)
                reference.left(event.device)
            case trace.Grouped():
                reference.grouped(event.head, event.members)
            case trace.Dispatched():
                reference.sent(event.device, event.t)
                steps = reference.steps(event.device)
                assert steps in (None, event.steps), f"{event.device} gets {event.steps} steps instead of {steps}"
            case trace.Arrived() if event.ticket in log.arrivals:  # others are those that heads report
                pending[event.ticket] = log.arrivals[event.ticket]
                assert event.staleness == reference.tau(pending[event.ticket])
                reference.arrived(pending[event.ticket])
            case trace.Rejected() | trace.Lost():
                pending.pop(event.ticket, None)
            case trace.Aggregated():
                _compare(log, reference, event, list(pending.values()))
                for ticket in event.tickets:
                    pending.pop(ticket, None)
    return reference.t


def _compare(log: Log, reference: Reference, event: trace.Aggregated, pending: list[Arrival]) -> None:
    reference.chosen = event.tickets
    if reference.waits:
        latest = {each.device: each.ticket for each in pending}
        pending = [each for each in pending if latest[each.device] == each.ticket]
    model, weights = reference.version(pending, event.t)
    assert set(event.tickets) == weights.keys(), f"version {event.version} has other updates"
    for ticket, weight in zip(event.tickets, weights_of(event), strict=True):
        assert abs(weight - weights[ticket]) <= EXACT * max(1.0, abs(weight)), f"version {event.version}: {ticket}"
    reference.x.append(model)
    made = log.models.get(event.version)
    if made is not None:
        off = np.linalg.norm(made - model) / max(1.0, float(np.linalg.norm(model)))
        assert off <= EXACT, f"version {event.version} is off by {off:.1e}"


def weights_of(event: trace.Aggregated) -> list[float]:
    return [float("nan") if weight is None else weight for weight in event.weights]


def _device(name: str, random: np.random.Generator) -> ImaginaryDevice:
    jobs = range(1, 80)
    return ImaginaryDevice(
        name=name,
        optimum=random.normal(4, 3, size=5).astype(np.float32),
        samples=int(random.integers(1, 50)),
        seconds_per_step=float(np.exp(random.uniform(-3.5, -1.0))),
        down=float(random.uniform(0, 0.5)),
        up=float(random.uniform(0, 0.5)),
        lost_downloads=[number for number in jobs if random.random() < 0.1],
        given_up=[number for number in jobs if random.random() < 0.08],
        repeats=bool(random.random() < 0.2),
    )


def _joined(info: DeviceInfo) -> trace.Joined:
    return trace.Joined(t=0.0, device=info.name, pid=0, cores=[], samples=info.samples)


def _arrival(update: Update, now: float) -> Arrival:
    return Arrival(
        device=update.device,
        ticket=update.ticket,
        base=update.version,
        t=now,
        delta=update.delta.astype(np.float64),
        samples=update.samples,
        seconds=update.finished - update.started,
        since=update.since,
    )
