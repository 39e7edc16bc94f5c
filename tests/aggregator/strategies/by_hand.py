"""A real engine without devices: the test passes in what arrives and reads what was sent."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from aggregator.engine.engine import Engine
from aggregator.strategy import DeviceInfo, Strategy
from testbed.history import trace
from testbed.wire.messages import Ask, Grant, Heartbeat, JoinCluster, SendGradient, Train, TrainsSent, Update, Vector
from testbed.wire.training_job import Job

E = TypeVar("E", bound=trace.Event)
G = TypeVar("G", bound=Engine)

EVENTS = ("start", "join", "leave", "update", "ask", "heartbeat", "wake", "broadcast_final", "resume")
"""Methods of an engine that take an event."""


def vector(*numbers: float) -> Vector:
    return np.array(numbers, np.float32)


def check_conservation(engine: Engine) -> None:
    """Every ticket has ended exactly once or is in flight, and all other accounts agree."""
    tally = engine.tally
    ended = tally.applied + tally.rejected + tally.lost + tally.superseded + tally.delivered
    assert tally.dispatched == ended + engine.in_flight
    engine.validate()


def validated(engine: G) -> G:
    """Let an engine check its invariants after every event. An event within another one is not checked by itself."""
    depth = 0

    def checked(event: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(event)
        def take(*args: Any, **kwargs: Any) -> None:
            nonlocal depth
            depth += 1
            try:
                event(*args, **kwargs)
            finally:
                depth -= 1
            if depth == 0:
                engine.validate()

        return take

    for name in EVENTS:
        setattr(engine, name, checked(getattr(engine, name)))
    return engine


def check_memory(engine: Engine) -> None:
    """Past models are kept for open tickets, and for devices that keep their base."""
    bases = sum(info.keeps_base for info in engine.devices.values())
    assert engine.models_kept <= engine.in_flight + bases + 1


@dataclass(kw_only=True)
class PlainForecast:
    """A cell without fading. A device computes for the seconds in ``computing``, or for 1."""

    bandwidth: float = 64.0
    snrs: Mapping[str, float] = field(default_factory=dict)
    computing: Mapping[str, float] = field(default_factory=dict)
    bits: Mapping[str, int] = field(default_factory=dict)
    """Of the compressed updates of a device; others are not compressed."""

    def snr(self, device: str, version: int) -> float:
        return self.snrs.get(device, 1.0)  # log2(1 + 1) = 1: a bit per second and hertz

    def upload_bits(self, device: str, size: int) -> int:
        return self.bits.get(device, 32 * size)

    def seconds(self, device: str, job: Job) -> float:
        return self.computing.get(device, 1.0)

    def observe(self, update: Update) -> None:
        """Does nothing: the seconds are given."""


class ByHand:
    """Passes events to an engine at the moment ``now``, which the test sets. The engine is validated after each."""

    def __init__(
        self,
        strategy: Strategy,
        model: Iterable[float] = (0.0,),
        *,
        job: Job | None = None,
        seed: int = 0,
        forecast: PlainForecast | None = None,
        keeps_base: bool = False,
    ) -> None:
        """``keeps_base``: whether devices train on the model that they have if a download is lost."""
        self.now, self.keeps_base = 0.0, keeps_base
        self.sent: list[tuple[str, Train]] = []
        """After a signal of a clustering: the last Train of the device, which its gradient is based on, with the ticket
        of the signal."""
        self.signals: list[tuple[str, SendGradient]] = []
        self.granted: list[tuple[str, Grant]] = []
        self.groups: list[tuple[str, JoinCluster]] = []
        self.counts: list[tuple[str, int]] = []
        self.trace: list[trace.Event] = []
        self.unreachable: set[str] = set()
        self.engine = validated(
            Engine(
                strategy,
                vector(*model),
                job=job or Job(),
                random=np.random.default_rng(seed),
                send=self._send,
                record=self.trace.append,
                forecast=forecast or PlainForecast(),
            )
        )

    def _send(self, device: str, message: Train | SendGradient | TrainsSent | Grant | JoinCluster) -> None:
        if device in self.unreachable:
            raise ConnectionError(device)
        if isinstance(message, Grant):
            self.granted.append((device, message))
        elif isinstance(message, JoinCluster):
            self.groups.append((device, message))
        elif isinstance(message, TrainsSent):
            self.counts.append((device, message.trains))
        elif isinstance(message, SendGradient):
            self.signals.append((device, message))
            past = next((train for name, train in reversed(self.sent) if name == device), self.sent[0][1])
            self.sent.append((device, replace(past, ticket=message.ticket, number=message.number, for_cluster=False)))
        else:
            self.sent.append((device, message))

    # ---- events

    def start(self, **samples: int) -> None:
        """Let devices join, each with its number of samples, and start the run."""
        for device, count in samples.items():
            self.join(device, count)
        self.engine.start(self.now)

    def join(self, device: str, samples: int = 1, trains: int | None = None) -> None:
        info = DeviceInfo(name=device, samples=samples, keeps_base=self.keeps_base)
        self.engine.join(info, self.now, trains)

    def leave(self, device: str) -> None:
        self.engine.leave(device, "it is gone", self.now)

    def update(
        self,
        device: str,
        *delta: float,
        train: Train | None = None,
        version: int | None = None,
        samples: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Pass the update for ``train``, or for the last Train of the device, which computed for ``seconds``."""
        train = train or self.train(device)
        info = self.engine.devices.get(device)
        self.engine.update(
            Update(
                device=device,
                ticket=train.ticket,
                version=train.version if version is None else version,
                delta=vector(*delta),
                samples=(info.samples if info else 1) if samples is None else samples,
                steps=train.job.steps,
                started=self.now - seconds,
                finished=self.now,
                due=self.now,
                loss=1.0,
                since=train.baseline or 0,
            ),
            self.now,
        )

    def ask(self, device: str, *, train: Train | None = None) -> None:
        """Pass the request of a device that has computed ``train``, or its last Train, and waits for a grant."""
        train = train or self.train(device)
        self.engine.ask(Ask(device=device, ticket=train.ticket, due=self.now), self.now)

    def heartbeat(
        self,
        device: str,
        *,
        ticket: int = 0,
        finished: int = 0,
        trains: int = 0,
        state: str = "idle",
        progress: float = 0.0,
    ) -> None:
        self.engine.heartbeat(
            Heartbeat(device=device, state=state, ticket=ticket, finished=finished, trains=trains, progress=progress),
            self.now,
        )

    def give_up(self, device: str) -> None:
        """Pass the heartbeat of a device that has finished its last job and given its upload up."""
        train = self.train(device)
        self.heartbeat(device, finished=train.ticket, trains=10**6)

    def wake(self, *, late: float = 0.0) -> None:
        """Advance to the wake that the strategy asked for, or ``late`` seconds further, and wake it."""
        assert self.engine.wake_at is not None
        self.now = max(self.now, self.engine.wake_at) + late
        self.engine.wake(self.now)

    # ---- what was sent

    def train(self, device: str) -> Train:
        """The last Train of a device."""
        return next(train for name, train in reversed(self.sent) if name == device)

    def dispatched(self) -> list[str]:
        """The devices that were sent a Train since the last call, in order."""
        names = [name for name, _ in self.sent[self._read :]]
        self._read = len(self.sent)
        return names

    _read = 0

    def grants(self) -> dict[str, float]:
        """Device → bits per second that it was granted since the last call."""
        rates = {name: grant.rate for name, grant in self.granted[self._seen :]}
        self._seen = len(self.granted)
        return rates

    _seen = 0

    def events(self, kind: type[E]) -> list[E]:
        return [event for event in self.trace if isinstance(event, kind)]

    @property
    def model(self) -> list[float]:
        return [float(number) for number in self.engine.model]
