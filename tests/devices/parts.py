"""A device on a manual clock: its specification, a fixed fault timetable, a fake trainer, and a loop that drives it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from devices.compute.kept_memory import JobTickets
from devices.compute.trainer import Steps, Stepwise, Trainer
from devices.device import Device
from devices.jobs import Meter
from testbed.emulation.faults import PlannedSuspension, Timetable, TransferFate
from testbed.emulation.poison import Poison
from testbed.history.trace import DeviceEvent, Event
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Direction
from testbed.wire.messages import Ask, Grant, Train, Update, Vector
from testbed.wire.training_job import Job

SMOOTH = TransferFate(dropped=False, delay_noise=0.0, rate_noise=0.0)
LOST = TransferFate(dropped=True, delay_noise=0.0, rate_noise=0.0)

SPEC = DeviceSpec(
    name="rpi-1",
    index=0,
    group=0,
    title="",
    throttle="pace",
    seconds_per_sample=1 / 64,  # half a second for a step of 32
    up=Direction(delay=0.5),
    down=Direction(delay=0.25),
    suspend=0.0,
    suspend_max=1.0,
    suspend_by="hold",
    on_drop="retry",
    tick=2.0,
)


def kind_of(event: Event) -> str:
    """The kind of an event, as in the trace."""
    return type(event).__name__.lower()


@dataclass(frozen=True, kw_only=True)
class FixedTimetable:
    """A fault timetable without faults, except those that are given here by (job, attempt) or by job."""

    downloads: Mapping[tuple[int, int], TransferFate] = field(default_factory=dict)
    uploads: Mapping[tuple[int, int], TransferFate] = field(default_factory=dict)
    suspensions: Mapping[int, PlannedSuspension] = field(default_factory=dict)
    poisons: Mapping[int, Poison] = field(default_factory=dict)

    def download(self, job: int, attempt: int) -> TransferFate:
        return self.downloads.get((job, attempt), SMOOTH)

    def upload(self, job: int, attempt: int) -> TransferFate:
        return self.uploads.get((job, attempt), SMOOTH)

    def suspension(self, job: int) -> PlannedSuspension | None:
        return self.suspensions.get(job)

    def step_seconds(self, job: int) -> float | None:
        return None

    def poison(self, job: int) -> Poison | None:
        return self.poisons.get(job)

    def poison_noise(self, job: int) -> np.random.Generator:
        return np.random.default_rng(job)


class FakeTraining:
    """Losses 1, 2, 3 …; the delta is filled with the number of the job. Records which jobs were begun and abandoned."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.bases: list[list[float]] = []
        """The models from which jobs were begun."""
        self.closed: list[int] = []

    def __call__(self, job: Job, base: Vector, number: int, tickets: JobTickets) -> Stepwise:
        self.begun.append((number, job.steps))
        self.bases.append(base.tolist())
        return Stepwise(self._steps(job, base, number))

    def _steps(self, job: Job, base: Vector, number: int) -> Steps:
        try:
            for step in range(1 if job.whole else job.steps):
                yield step + 1.0
        except GeneratorExit:
            self.closed.append(number)
            raise
        return np.full_like(base, number)


class Time:
    """Replaces the ``time`` module in ``testbed.common.clock``: moves by each sleep, and a little by each reading."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        self.now += 1e-7
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Bench:
    """One device and the time. A step takes ``cost`` seconds of it, as computing does on a real host.

    The process wakes ``late`` seconds after the moment that it waits for. Each call is followed by a check of the
    device's invariants.
    """

    def __init__(
        self,
        timetable: Timetable | None = None,
        *,
        cost: float = 0.0,
        late: float = 0.0,
        samples: int = 128,
        lead: float = 0.0,
        ahead: float = 0.0,
        grain: float = 0.0,
        begins: float = 0.0,
        replays: bool = False,
        meter: Meter = lambda: None,
        trainer: Trainer | None = None,
        kind: type[Device] = Device,
        **changes: Any,
    ) -> None:
        self.training = FakeTraining()
        spec = dataclasses.replace(SPEC, **changes)
        self.device = kind(
            spec,
            timetable or FixedTimetable(),
            samples=samples,
            trainer=trainer or self.training,
            meter=meter,
            lead=lead,
            ahead=ahead,
            grain=grain,
            begins=begins,
            replays=replays,
        )
        self.now = 0.0
        self.delivered: list[tuple[float, Update]] = []
        self.asked: list[tuple[float, Ask]] = []
        self.events: list[DeviceEvent] = []
        self._cost, self._late = cost, late
        self.jobs_before, self._numbers = 0, dict[int, int]()

    def train(
        self,
        ticket: int,
        *,
        steps: int = 4,
        job: Job | None = None,
        at: float | None = None,
        sent: float | None = None,
        version: int = 7,
        model: float = 0.0,
        grant: bool = False,
        baseline: int | None = None,
        arrived: int = 0,
        kept: bool = False,
    ) -> None:
        """Pass a Train to the device ``at`` a moment; it was ``sent`` then, or before."""
        self._receive(ticket, job or Job(steps=steps), at, sent, version, model, grant, baseline, arrived, kept)

    def grant(self, ticket: int, rate: float, *, at: float | None = None, sent: float | None = None) -> None:
        """Pass a Grant of ``rate`` bits per second to the device; a model of four numbers has 128 bits."""
        if at is not None:
            self.run_until(at)
        self.device.receive_grant(Grant(ticket=ticket, rate=rate, sent=self.now if sent is None else sent))
        self.device.validate()

    def final(self, ticket: int, *, at: float | None = None) -> None:
        """Pass the final model to the device: a Train without a job."""
        self._receive(ticket, None, at, None, 9, 0.0)

    def _receive(
        self,
        ticket: int,
        job: Job | None,
        at: float | None,
        sent: float | None,
        version: int,
        model: float,
        grant: bool = False,
        baseline: int | None = None,
        arrived: int = 0,
        kept: bool = False,
    ) -> None:
        if at is not None:
            self.run_until(at)
        number = self._numbers.setdefault(ticket, self.jobs_before + len(self._numbers))
        train = Train(
            ticket=ticket,
            number=number,
            version=version,
            sent=self.now if sent is None else sent,
            job=job,
            model=np.full(4, model, dtype=np.float32),
            grant=grant,
            baseline=baseline,
            arrived=arrived,
            kept=kept,
        )
        self.device.receive(train, self.now)
        self.device.validate()

    def run_until(self, moment: float) -> None:
        """Do everything when it is due, as the process of the device does."""
        while True:
            self.device.advance(self.now)
            self.device.validate()
            self._collect()
            if self.device.wants_step(self.now) and (self.now < moment or self._cost == 0):
                self.device.step()
                self.now += self._cost
                self.device.stepped(self.now)
                self.device.validate()
            elif self.now < self.device.due() <= moment:
                self.now = self.device.due() + self._late
            else:
                break
        self.now = max(self.now, moment)

    def of_kind(self, kind: str) -> list[Any]:
        return [event for event in self.events if kind_of(event) == kind]

    @property
    def times(self) -> list[tuple[str, float]]:
        return [(kind_of(event), event.t) for event in self.events]

    @property
    def deliveries(self) -> list[tuple[int, float]]:
        """The ticket of each update, and when it was handed to the transport."""
        return [(update.ticket, moment) for moment, update in self.delivered]

    @property
    def dues(self) -> list[tuple[int, float]]:
        """The ticket of each update, and when it was due."""
        return [(update.ticket, update.due) for _, update in self.delivered]

    def _collect(self) -> None:
        self.events += self.device.take_events()
        for message in self.device.outbox:
            if isinstance(message, Ask):
                self.asked.append((self.now, message))
            else:
                self.delivered.append((self.now, message))
        self.device.outbox.clear()
