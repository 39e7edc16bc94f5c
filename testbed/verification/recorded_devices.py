"""The devices of a recorded run: what each was sent and downloaded, and the updates that it made of it.

Theory of operation
    The engine sends its messages here instead of to processes. A job is computed when the trace has its update; jobs
    whose updates never counted are not computed. The trace shows which model a job began with: that of its Train or, if
    its download was lost, the one before (``on_lost_download = "old_base"``).
    With a baseline (ASAFL with light memory), what a device uploads depends on the jobs before it, and on those that it
    finished without effect. So these jobs are computed as soon as the trace reports their end.
    A new process knows nothing of its predecessor: ``restart`` forgets everything of a device.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from devices.baseline import Baseline
from testbed.history import trace
from testbed.verification.job_computer import JobComputer
from testbed.wire.messages import Base, ForDevice, Train, Update, Vector


class _Uploaded(NamedTuple):
    """The result of a job as it was uploaded."""

    delta: Vector
    since: int
    loss: float | None


@dataclass(slots=True)
class _DeviceMemory:
    """What one device process knows."""

    trains: dict[int, Train] = field(default_factory=dict)
    """Ticket → the Train that was sent."""
    sent: Counter[int] = field(default_factory=Counter)
    """Ticket → how often its Train was sent."""
    dropped: set[int] = field(default_factory=set)
    """Tickets whose download was lost in its last attempt."""
    base: Train | Base | None = None
    """The last model, if the device trains it again when a download is lost."""
    trained: dict[int, tuple[Train, Train | Base]] = field(default_factory=dict)
    """Ticket of the last finished job → its Train, and the model that it began with."""
    baseline: Baseline | None = None
    uploads: dict[int, _Uploaded] = field(default_factory=dict)
    """Ticket → what was uploaded, of a device with a baseline."""


class NoJob(Exception):
    """The trace does not show that a device was sent, or has finished, a job; the text says what is missing."""


class RecordedDevices:
    """All devices of a run. ``keeps_base``: the devices that train their old model if a download is lost."""

    def __init__(self, computer: JobComputer, keeps_base: frozenset[str]) -> None:
        self._computer, self._keeps_base = computer, keeps_base
        self._devices: dict[str, _DeviceMemory] = {}

    def restart(self, device: str) -> None:
        """Begin with a new process of a device."""
        self._devices[device] = _DeviceMemory()

    def receive(self, device: str, message: ForDevice) -> None:
        """Accept a message of an engine: that of the aggregator, or of a cluster head."""
        memory = self._of(device)
        if isinstance(message, Base):
            memory.base = message
        elif isinstance(message, Train):
            if message.ticket not in memory.trains:
                memory.sent.clear()
            if message.baseline is None:  # the last Train replaces those before; their updates do not count any more
                memory.trains.clear()
            memory.trains[message.ticket] = message
            memory.sent[message.ticket] += 1

    def note(self, event: trace.Event) -> None:
        """Take an event that a device reported. Raises NoJob if the device was not sent what it reports."""
        match event:
            case trace.Downloaded():
                self._note_download(event)
            case trace.Trained():
                self._note_trained(event)
            case trace.Abandoned():
                self._of(event.device).trains.pop(event.ticket, None)
            case _:
                pass

    def _note_download(self, event: trace.Downloaded) -> None:
        memory = self._of(event.device)
        train = memory.trains.get(event.ticket)
        if event.ticket in memory.sent and event.attempt >= memory.sent[event.ticket]:
            raise NoJob(f"resent of ticket {event.ticket} ({event.device}) before it")
        if event.dropped:
            memory.dropped.add(event.ticket)
            return
        memory.dropped.discard(event.ticket)
        if train is None:
            return
        if event.device in self._keeps_base and train.job is not None:
            memory.base = train
        if train.baseline is not None:
            memory.baseline = memory.baseline or Baseline(train.model.size)
            memory.baseline.confirm(train.baseline)

    def _note_trained(self, event: trace.Trained) -> None:
        memory = self._of(event.device)
        train = memory.trains.get(event.ticket)
        if train is None:
            return  # its update does not count any more, or its head has reported it already
        if train.job is None or event.steps != train.job.steps_over(self._computer.samples(event.device)):
            raise NoJob(f"the steps of the job of ticket {event.ticket}")
        base = memory.base if event.ticket in memory.dropped and memory.base is not None else train
        memory.dropped.discard(event.ticket)
        memory.trained = {event.ticket: (train, base)}
        if train.baseline is not None and memory.baseline is not None:
            memory.trains = {ticket: each for ticket, each in memory.trains.items() if ticket > event.ticket}
            delta, loss = self._compute(event.device, train, base.model)
            difference, since = memory.baseline.difference(event.ticket, delta)
            memory.uploads = {event.ticket: _Uploaded(difference, since, loss)}

    def update(self, device: str, ticket: int, *, started: float, finished: float, due: float) -> Update:
        """Return the update of a ticket. Raises NoJob if the device has not reported that it finished the job."""
        memory = self._of(device)
        if ticket not in memory.trained:
            raise NoJob(f"trained of ticket {ticket} ({device}) before it")
        train, base = memory.trained.pop(ticket)
        found = memory.uploads.pop(ticket, None)
        if found is None:
            delta, loss = self._compute(device, train, base.model)
            found = _Uploaded(delta, 0, loss)
        memory.trains.pop(ticket, None)
        return self._made(device, train, base.version, found, started=started, finished=finished, due=due)

    def update_of_member(self, device: str, ticket: int, *, started: float, finished: float, due: float) -> Update:
        """Return the update of a ticket of a cluster head. Members may report the end of a job after their head."""
        train = self._of(device).trains.pop(ticket, None)
        if train is None:
            raise NoJob(f"dispatched of ticket {ticket} ({device}) before it")
        delta, loss = self._compute(device, train, train.model)
        found = _Uploaded(delta, 0, loss)
        return self._made(device, train, train.version, found, started=started, finished=finished, due=due)

    def _compute(self, device: str, train: Train, base: Vector) -> tuple[Vector, float | None]:
        assert train.job is not None
        return self._computer.compute(device, train.number, base, train.job)

    def _made(
        self, device: str, train: Train, version: int, upload: _Uploaded, *, started: float, finished: float, due: float
    ) -> Update:
        assert train.job is not None
        samples = self._computer.samples(device)
        return Update(
            device=device,
            ticket=train.ticket,
            version=version,
            delta=upload.delta,
            since=upload.since,
            samples=samples,
            steps=train.job.steps_over(samples),
            started=started,
            finished=finished,
            due=due,
            loss=upload.loss,
        )

    def _of(self, device: str) -> _DeviceMemory:
        return self._devices.setdefault(device, _DeviceMemory())
