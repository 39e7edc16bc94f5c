"""A real engine whose devices are played by hand: the test says what arrives, and reads what was sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from aggregator.engine.engine import Engine
from aggregator.strategy import DeviceInfo, Strategy
from testbed.history import trace
from testbed.wire.messages import Ask, Grant, Heartbeat, Job, JoinCluster, Train, Update, Vector

E = TypeVar("E", bound=trace.Event)


def vector(*numbers: float) -> Vector:
    return np.array(numbers, np.float32)


def check_conservation(engine: Engine) -> None:
    """Every ticket is settled exactly once, or is in flight."""
    tally = engine.tally
    settled = tally.applied + tally.rejected + tally.lost + tally.superseded + tally.delivered
    assert tally.dispatched == settled + engine.in_flight


def check_memory(engine: Engine) -> None:
    """Past models are kept for open tickets only."""
    assert engine.models_kept <= engine.in_flight + 1


@dataclass(kw_only=True)
class PlainOutlook:
    """A cell whose channels do not fade, and devices that take as long as is written here: 1, if nothing is."""

    bandwidth: float = 64.0
    snrs: Mapping[str, float] = field(default_factory=dict)
    computing: Mapping[str, float] = field(default_factory=dict)

    def snr(self, device: str, version: int) -> float:
        return self.snrs.get(device, 1.0)  # log2(1 + 1) = 1: a bit per second and hertz

    def seconds(self, device: str, job: Job) -> float:
        return self.computing.get(device, 1.0)

    def heard(self, update: Update) -> None:
        """It knows already."""


class ByHand:
    """Joins, updates, beats and leaves at the moment ``now``, which the test sets."""

    def __init__(
        self,
        strategy: Strategy,
        model: Iterable[float] = (0.0,),
        *,
        job: Job | None = None,
        seed: int = 0,
        forecast: PlainOutlook | None = None,
    ) -> None:
        self.now = 0.0
        self.sent: list[tuple[str, Train]] = []
        self.granted: list[tuple[str, Grant]] = []
        self.groups: list[tuple[str, JoinCluster]] = []
        self.trace: list[trace.Event] = []
        self.unreachable: set[str] = set()
        self.engine = Engine(
            strategy,
            vector(*model),
            job=job or Job(),
            random=np.random.default_rng(seed),
            send=self._send,
            record=self.trace.append,
            forecast=forecast or PlainOutlook(),
        )

    def _send(self, device: str, message: Train | Grant | JoinCluster) -> None:
        if device in self.unreachable:
            raise ConnectionError(device)
        if isinstance(message, Grant):
            self.granted.append((device, message))
        elif isinstance(message, JoinCluster):
            self.groups.append((device, message))
        else:
            self.sent.append((device, message))

    # ---- what goes in

    def start(self, **samples: int) -> None:
        """Device → its samples."""
        for device, count in samples.items():
            self.join(device, count)
        self.engine.start(self.now)

    def join(self, device: str, samples: int = 1, trains: int = 0) -> None:
        self.engine.join(DeviceInfo(name=device, samples=samples), self.now, trains)

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
        """The device answers the Train it was sent last, or ``train``, on which it has worked for so many seconds."""
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
        """The device has computed what it was sent last, or ``train``, and waits for a grant."""
        train = train or self.train(device)
        self.engine.ask(Ask(device=device, ticket=train.ticket, due=self.now), self.now)

    def beat(
        self,
        device: str,
        *,
        ticket: int = 0,
        finished: int = 0,
        trains: int = 0,
        state: str = "idle",
        progress: float = 0.0,
    ) -> None:
        beat = Heartbeat(device=device, state=state, ticket=ticket, finished=finished, trains=trains, progress=progress)
        self.engine.beat(beat, self.now)

    def give_up(self, device: str) -> None:
        """The device finished its last job and holds it no more."""
        train = self.train(device)
        self.beat(device, finished=train.ticket, trains=10**6)

    def wake(self, *, late: float = 0.0) -> None:
        """Time goes on to the moment that the rule asked for, or ``late`` seconds more."""
        assert self.engine.wake_at is not None
        self.now = max(self.now, self.engine.wake_at) + late
        self.engine.wake(self.now)

    # ---- what came out

    def train(self, device: str) -> Train:
        """What the device was sent last."""
        return next(train for name, train in reversed(self.sent) if name == device)

    def dispatched(self) -> list[str]:
        """The devices that were sent something since the last call, in order."""
        names = [name for name, _ in self.sent[self._read :]]
        self._read = len(self.sent)
        return names

    _read = 0

    def grants(self) -> dict[str, float]:
        """Device → bits per second, of the grants since the last call."""
        rates = {name: grant.rate for name, grant in self.granted[self._seen :]}
        self._seen = len(self.granted)
        return rates

    _seen = 0

    def events(self, kind: type[E]) -> list[E]:
        return [event for event in self.trace if isinstance(event, kind)]

    @property
    def model(self) -> list[float]:
        return [float(number) for number in self.engine.model]
