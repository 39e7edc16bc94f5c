"""The life of a device as a state machine: messages and the time go in, updates and events come out. No I/O.

A job is downloaded, trained (paced, perhaps suspended in the middle) and uploaded. A Train that comes while the
device is busy downloads beside the old work and replaces it when it is there; if that download is lost, the old
work goes on.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from devices.link import Transfer, transfer
from devices.throttle import Pace
from testbed.faults import Suspension, Timetable
from testbed.messages import Beat, Job, Train, Update, Vector
from testbed.profile import DeviceSpec
from testbed.trace import Abandoned, Downloaded, Event, Suspended, Trained, Uploaded, as_table

Steps: TypeAlias = Generator[float, None, Vector]
Trainer: TypeAlias = Callable[[Job, Vector, int], Steps]
"""Begins local training: what to do, the model to start from, the number of the job."""


class State(enum.StrEnum):
    IDLE = "idle"
    DOWNLOADING = "downloading"
    TRAINING = "training"
    UPLOADING = "uploading"
    SUSPENDED = "suspended"


@dataclass(slots=True, kw_only=True)
class _Work:
    """The job in hand."""

    train: Train
    number: int
    steps: int
    training: Steps
    pace: Pace
    started: float
    suspension: Suspension | None
    done: int = 0
    losses: float = 0.0
    update: Update | None = None
    upload: Transfer | None = None
    attempt: int = 0
    retry_at: float = math.inf

    @property
    def suspends_now(self) -> bool:
        return self.suspension is not None and self.done >= int(self.suspension.at * self.steps)


@dataclass(slots=True, kw_only=True)
class _Hang:
    started: float
    until: float
    asked: float


class Device:
    """One emulated device."""

    def __init__(self, spec: DeviceSpec, timetable: Timetable, samples: int, trainer: Trainer) -> None:
        self.spec = spec
        self._timetable = timetable
        self._samples = samples
        self._trainer = trainer
        self._work: _Work | None = None
        self._download: tuple[Train, Transfer] | None = None
        self._hang: _Hang | None = None
        self._inbox: Train | None = None
        self._jobs = 0
        self._attempt = 0
        self._ticket = 0
        self._finished = 0
        self._trains = 0
        self._drops = 0
        self._events: list[Event] = []
        self.outbox: list[Update] = []

    # ---- what goes in

    def receive(self, train: Train, now: float) -> None:
        """A Train has reached this end of the transport; its way over the emulated link begins."""
        self._trains += 1
        if self._hang is not None:
            self._inbox = train
        else:
            self._start_download(train, now)

    def advance(self, now: float) -> None:
        """Do everything that is due, except computing a step."""
        while True:
            work = self._work
            if self._hang is not None:
                if self._hang.until > now:
                    return
                self._wake_up(now)
            elif self._download is not None and self._download[1].due <= now:
                self._end_download(now)
            elif work is not None and _work_due(work) <= now and not self.wants_step(now):
                self._advance_work(work, now)
            else:
                return

    def wants_step(self, now: float) -> bool:
        """Whether the next local step should be computed now."""
        work = self._work
        return (
            work is not None
            and work.done < work.steps
            and self._hang is None
            and not work.suspends_now
            and work.pace.deadline(work.done) <= now
        )

    def step(self) -> None:
        """Compute one local step, at the speed of the host. Call :meth:`stepped` with the time after it."""
        assert self._work is not None
        self._work.losses += next(self._work.training)
        self._work.done += 1

    def stepped(self, now: float) -> None:
        assert self._work is not None
        self._work.pace.finished_step(self._work.done, now)

    def stop(self, now: float) -> None:
        """The run is over: tell what was under way, so that the seconds spent on it are not taken for idle ones."""
        if self._hang is not None:
            self._wake_up(now)
        if self._work is not None and self._work.update is None:
            self._abandon(self._work, now)

    # ---- what comes out

    def due(self) -> float:
        """When :meth:`advance` or :meth:`step` is next wanted; infinity while only a message can change anything."""
        if self._hang is not None:
            return self._hang.until
        moment = self._download[1].due if self._download is not None else math.inf
        return moment if self._work is None else min(moment, _work_due(self._work))

    @property
    def state(self) -> State:
        if self._hang is not None:
            return State.SUSPENDED
        if self._work is not None:
            return State.TRAINING if self._work.update is None else State.UPLOADING
        return State.IDLE if self._download is None else State.DOWNLOADING

    def beat(self) -> Beat:
        """A heartbeat, which carries the events since the last message."""
        work, download = self._work, self._download
        holding = self._inbox or (download[0] if download is not None else work.train if work is not None else None)
        return Beat(
            device=self.spec.name,
            state=self.state.value,
            ticket=holding.ticket if holding is not None else 0,
            finished=self._finished,
            trains=self._trains,
            progress=work.done / work.steps if work is not None else 0.0,
            drops=self._drops,
            events=self.take_events(),
        )

    def take_events(self) -> tuple[dict[str, object], ...]:
        events = tuple(as_table(event) for event in self._events)
        self._events.clear()
        return events

    # ---- download

    def _start_download(self, train: Train, now: float) -> None:
        in_hand = {self._work.train.ticket if self._work is not None else 0}
        in_hand.add(self._download[0].ticket if self._download is not None else 0)
        if train.ticket in in_hand or train.ticket <= self._finished:
            return  # sent again although we have it, or had it
        if train.ticket == self._ticket:
            self._attempt += 1
        else:
            self._ticket, self._attempt = train.ticket, 0
            self._jobs += 1
        fate = self._timetable.download(self._jobs - 1, self._attempt)
        self._download = train, transfer(self.spec.down, train.model.nbytes, fate, now)

    def _end_download(self, now: float) -> None:
        assert self._download is not None
        train, way = self._download
        self._download = None
        self._note(
            Downloaded(
                t=now, device=self.spec.name, ticket=train.ticket, attempt=self._attempt,
                asked=way.asked, obtained=now - way.started, bytes=way.bytes, dropped=way.dropped,
            )
        )  # fmt: skip
        if way.dropped:
            self._drops += 1
            return
        if self._work is not None:
            self._abandon(self._work, now)
        self._start_work(train, now)

    def _abandon(self, work: _Work, now: float) -> None:
        work.training.close()
        seconds = work.pace.obtained(now if work.update is None else work.update.finished)
        self._note(Abandoned(t=now, device=self.spec.name, ticket=work.train.ticket, seconds=seconds))

    # ---- training

    def _start_work(self, train: Train, now: float) -> None:
        number = self._jobs - 1
        pace = Pace(now, self.spec.seconds_per_sample, lambda steps: train.job.samples_after(steps, self._samples))
        self._work = _Work(
            train=train, number=number, steps=train.job.steps_over(self._samples),
            training=self._trainer(train.job, train.model, number), pace=pace, started=now,
            suspension=self._timetable.suspension(number),
        )  # fmt: skip

    def _advance_work(self, work: _Work, now: float) -> None:
        if work.update is None:
            if work.suspends_now:
                self._fall_asleep(work, now)
            elif work.done == work.steps:
                self._finish_training(work, now)
        elif work.upload is None:
            self._start_upload(work, now)
        else:
            self._end_upload(work, work.upload, now)

    def _fall_asleep(self, work: _Work, now: float) -> None:
        assert work.suspension is not None
        seconds = work.suspension.seconds
        work.suspension = None
        self._hang = _Hang(started=now, until=now + seconds, asked=seconds)

    def _wake_up(self, now: float) -> None:
        assert self._hang is not None
        hang, self._hang = self._hang, None
        if self._work is not None:
            self._work.pace.held += now - hang.started
            self._note(
                Suspended(
                    t=now, device=self.spec.name, ticket=self._work.train.ticket,
                    asked=hang.asked, obtained=now - hang.started,
                )
            )  # fmt: skip
        if self._inbox is not None:
            train, self._inbox = self._inbox, None
            self._start_download(train, now)

    def _finish_training(self, work: _Work, now: float) -> None:
        ticket = work.train.ticket
        self._finished = ticket
        self._note(
            Trained(
                t=now, device=self.spec.name, ticket=ticket, steps=work.steps,
                asked=work.pace.asked(work.steps), obtained=work.pace.obtained(now), late=work.pace.late,
            )
        )  # fmt: skip
        work.update = Update(
            device=self.spec.name, ticket=ticket, version=work.train.version, delta=_result(work.training),
            samples=self._samples, steps=work.steps, started=work.started, finished=now,
            loss=work.losses / work.steps if math.isfinite(work.losses) else None,
        )  # fmt: skip
        self._start_upload(work, now)

    # ---- upload

    def _start_upload(self, work: _Work, now: float) -> None:
        assert work.update is not None
        fate = self._timetable.upload(work.number, work.attempt)
        work.upload = transfer(self.spec.up, work.update.delta.nbytes, fate, now)

    def _end_upload(self, work: _Work, way: Transfer, now: float) -> None:
        assert work.update is not None
        self._note(
            Uploaded(
                t=now, device=self.spec.name, ticket=work.train.ticket, attempt=work.attempt,
                asked=way.asked, obtained=now - way.started, bytes=way.bytes, dropped=way.dropped,
            )
        )  # fmt: skip
        if not way.dropped:
            self.outbox.append(msgspec.structs.replace(work.update, trains=self._trains))
            self._work = None
            return
        self._drops += 1
        work.attempt += 1
        if self.spec.on_drop == "give_up":
            self._work = None  # the next heartbeat shows a finished job that is not held any more
        elif self.spec.on_drop == "next_tick":
            work.upload = None
            work.retry_at = (math.floor(now / self.spec.tick) + 1) * self.spec.tick
        else:
            self._start_upload(work, now)

    def _note(self, event: Event) -> None:
        self._events.append(event)


def _work_due(work: _Work) -> float:
    if work.update is None:
        return work.pace.deadline(work.done)
    return work.upload.due if work.upload is not None else work.retry_at


def _result(training: Steps) -> Vector:
    """What a generator returns after its last step."""
    try:
        next(training)
    except StopIteration as end:
        delta: Vector = end.value
        return delta
    raise AssertionError("local training went on after its last step")
