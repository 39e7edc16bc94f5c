"""The devices of a recorded run: what each was sent and downloaded, and the updates that it made of it.

Theory of operation
    The engine sends its messages here instead of to processes. A job is computed when the trace has its update; jobs
    whose updates never counted are not computed. The trace shows which model a job began with: that of its Train or, if
    its download was lost, the one before (``on_lost_download = "old_base"``).
    With a baseline (ASAFL with light memory), what a device uploads depends on the jobs before it, and on those that it
    finished without effect. So these jobs are computed as soon as the trace reports their end.
    Compression: the residual of a job is what the last update that had arrived before it left (docs/compression.md).
    Each Train names that update. A cluster head does not compress its own updates; where the role of a device may have
    changed in the middle of a job, the recorded bytes show whether the update was compressed.
    Gradients (ADR 28): a device keeps its last update, which a clustering or the next head may ask for.
    A new process knows nothing of its predecessor: ``restart`` forgets everything of a device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from devices.baseline import Baseline
from devices.compute.job_computer import JobComputer
from devices.compute.kept_memory import JobTickets
from testbed.history import trace
from testbed.profile.fleet import DeviceSpec
from testbed.verification.recorded_poison import RecordedPoison
from testbed.verification.trace_outline import FinishedJobs
from testbed.wire.compression import Compressed
from testbed.wire.compression_method import NONE, method_of
from testbed.wire.error_feedback import outgoing
from testbed.wire.messages import Base, ForDevice, SendGradient, Train, Update, Vector
from testbed.wire.ticket_ranges import range_of


class UpdateMoments(NamedTuple):
    """When a job was computed and its update was due. ``finished`` is None if the trace does not have it."""

    started: float = 0.0
    finished: float | None = None
    due: float = 0.0

    @classmethod
    def of(cls, event: trace.TicketEvent) -> UpdateMoments:
        """The moments in the event of an update; those of a rejected one are not known."""
        if isinstance(event, trace.Arrived):
            return cls(event.started or 0.0, event.finished or 0.0, event.due)
        return cls(due=event.t)


class _Uploaded(NamedTuple):
    """The result of a job as it was uploaded."""

    delta: Vector
    since: int
    loss: float | None
    payload: Compressed | None = None


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
    """Ticket → what was uploaded, of a device with a baseline or one that keeps its updates."""
    residuals: dict[int, Vector] = field(default_factory=dict)
    """Ticket → what its compression lost, of the last updates."""
    kept: dict[int, Train] = field(default_factory=dict)
    """Ticket → its Train, of jobs whose updates the device keeps."""
    signal: int = 0
    """The ticket of a gradient that the device was asked for; 0: there is none."""

    def forget_before(self, ticket: int) -> None:
        """Forget the kept updates of earlier jobs: the device keeps the last one. Not while a gradient is awaited."""
        if not self.signal:
            self.kept = {number: each for number, each in self.kept.items() if number >= ticket}
            self.uploads = {number: each for number, each in self.uploads.items() if number >= ticket}


class NoJob(Exception):
    """The trace does not show that a device was sent, or has finished, a job; the text says what is missing."""


class RecordedDevices:
    """All devices of a run. ``finished``: its jobs, if the devices keep their updates."""

    def __init__(
        self, computer: JobComputer, devices: Iterable[DeviceSpec], poison: RecordedPoison, finished: FinishedJobs
    ) -> None:
        self._computer, self._poison, self._finished = computer, poison, finished
        self._specs = {spec.name: spec for spec in devices}
        self._devices: dict[str, _DeviceMemory] = {}

    def restart(self, device: str) -> None:
        """Begin with a new process of a device."""
        self._devices[device] = _DeviceMemory()
        self._computer.restart(device)

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
            if message.kept:
                memory.kept[message.ticket] = message
        elif isinstance(message, SendGradient):
            memory.signal = message.ticket

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
        if self._specs[event.device].on_lost_download == "old_base" and train.job is not None:
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
            delta, loss = self._compute(event.device, train, base.model, None)
            difference, since = memory.baseline.difference(event.ticket, delta)
            memory.uploads = {event.ticket: _Uploaded(difference, since, loss)}

    # ---- updates

    def update(self, device: str, ticket: int, moments: UpdateMoments) -> Update:
        """Return the update of a ticket. Raises NoJob if the device has not reported that it finished the job."""
        memory = self._of(device)
        if ticket not in memory.trained:
            raise NoJob(f"trained of ticket {ticket} ({device}) before it")
        train, base = memory.trained.pop(ticket)
        memory.trains.pop(ticket, None)
        found = memory.uploads.pop(ticket, None) or self._upload(device, train, base.model, moments.finished)
        return self._made(device, train, base.version, found, moments)

    def update_of_member(
        self, device: str, ticket: int, moments: UpdateMoments, nbytes: int | None, *, own: bool
    ) -> Update:
        """Return the update of a ticket of a cluster head. Members may report the end of a job after their head.

        ``nbytes``: its recorded size, if that is known. ``own``: the device is the head itself.
        """
        memory = self._of(device)
        train = memory.trains.pop(ticket, None) or memory.kept.get(ticket)
        if train is None:
            raise NoJob(f"dispatched of ticket {ticket} ({device}) before it")
        found = self._kept_upload(device, train, moments, nbytes, own=own)
        memory.forget_before(ticket)
        return self._made(device, train, train.version, found, moments)

    def has_signal(self, device: str, ticket: int) -> bool:
        """Return whether this ticket asks the device for a gradient."""
        return self._of(device).signal == ticket

    def gradient(self, device: str, moments: UpdateMoments, nbytes: int | None, head_of_range: Sequence[str]) -> Update:
        """Return the last update that the device had computed when it was asked for a gradient.

        ``head_of_range``: the heads of all ticket ranges; the updates of a head to itself are not compressed.
        """
        memory = self._of(device)
        ticket = self._finished.ticket_at(device, moments.due if moments.finished is None else moments.finished)
        train = memory.kept.get(ticket)
        if train is None:
            raise NoJob(f"dispatched of a job of {device} that ended at {moments.finished} s before it")
        own = head_of_range[range_of(ticket)] == device
        found, signal = self._kept_upload(device, train, moments, nbytes, own=own), memory.signal
        memory.signal = 0
        return replace(self._made(device, train, train.version, found, moments), ticket=signal)

    def _kept_upload(
        self, device: str, train: Train, moments: UpdateMoments, nbytes: int | None, *, own: bool
    ) -> _Uploaded:
        memory = self._of(device)
        found = memory.uploads.get(train.ticket)
        if found is None:
            plain, packed = train.model.nbytes, method_of(self._specs[device].compress_updates).nbytes(train.model.size)
            over_link = not own if nbytes is None or plain == packed else nbytes != plain
            found = self._upload(device, train, train.model, moments.finished, over_link=over_link)
        return found

    def _upload(
        self, device: str, train: Train, base: Vector, finished: float | None, *, over_link: bool = True
    ) -> _Uploaded:
        """Compute a job and compress its result; keep it if the device does."""
        memory, method = self._of(device), self._specs[device].compress_updates
        delta, loss = self._compute(device, train, base, finished)
        found = _Uploaded(delta, 0, loss)
        if method != NONE and over_link:
            same_giver = range_of(train.arrived) == range_of(train.ticket)
            sent = outgoing(method, delta, memory.residuals.get(train.arrived) if same_giver else None)
            memory.residuals = {ticket: e for ticket, e in memory.residuals.items() if ticket >= train.arrived}
            memory.residuals[train.ticket] = sent.residual
            found = _Uploaded(sent.delta, 0, loss, sent.payload)
        if train.kept:
            memory.uploads[train.ticket] = found
        return found

    def _compute(self, device: str, train: Train, base: Vector, finished: float | None) -> tuple[Vector, float | None]:
        assert train.job is not None
        tickets = JobTickets(train.ticket, train.arrived)
        delta, loss = self._computer.compute(device, train.number, base, train.job, tickets)
        return self._poison.apply(device, train, delta, finished), loss

    def _made(self, device: str, train: Train, version: int, upload: _Uploaded, moments: UpdateMoments) -> Update:
        assert train.job is not None
        samples = self._computer.samples(device)
        return Update(
            device=device,
            ticket=train.ticket,
            version=version,
            delta=upload.delta,
            since=upload.since,
            payload=upload.payload,
            samples=samples,
            steps=train.job.steps_over(samples),
            started=moments.started,
            finished=moments.finished or 0.0,
            due=moments.due,
            loss=upload.loss,
        )

    def _of(self, device: str) -> _DeviceMemory:
        return self._devices.setdefault(device, _DeviceMemory())
