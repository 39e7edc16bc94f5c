"""Recordings: the jobs of each device, read from a trace, so that a replay can repeat them.

A recording contains, for the n-th job of a device, the seconds of each attempt at a transfer and whether it was lost,
the seconds of a local step, its suspension and its poison. Absences of a device depend on the clock, not on jobs: see
``testbed.replay.replay_setup``. One pass splits a trace into one small file per device; only jobs in flight are in
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from testbed.common.errors import UserError
from testbed.emulation.poison import Poison
from testbed.emulation.recorded import RecordedJob, RecordedSuspension, RecordedTransfer
from testbed.history import trace
from testbed.history.trace import Event

_JOBS_OPEN = 64
"""A restarted device may report an old job while the models of later ones are in transfer or lost."""
_JOBS_MISSING, _JOBS_MISSING_FOR_EACH = 10_000, 100
"""Jobs without an event that a recording may have, and more for each event: their transfers were cut off. A job that
is farther ahead is a damaged number, and would have the recording filled with empty jobs up to there."""
_LINES_IN_MEMORY = 64

_encoder = msgspec.json.Encoder()


class RecordingSplitter:
    """Takes the events of a trace one after another and writes one file for each device that was added.

    ``use`` chooses the seconds of computing: ``asked`` or ``obtained`` in the recorded run. Transfers and suspensions
    are recorded as they were due: a process that woke late delayed nothing after it (ADR 7).
    """

    def __init__(self, folder: Path, *, use: str) -> None:
        self._folder, self._reader = folder, _ChangeReader(use)
        self._writers: dict[str, _Writer] = {}

    def add(self, device: str, file: str) -> None:
        """Record the jobs of a device from the next event on, in a new file of the folder."""
        self._writers[device] = _Writer(self._folder / file, device)

    def take(self, event: Event) -> None:
        for device, number, change in self._reader.changes(event):
            writer = self._writers.get(device)
            if writer is not None:
                writer.change(number, change)

    def close(self) -> dict[str, int]:
        """Write the jobs that are still open. Returns the number of jobs of each device."""
        return {device: writer.close() for device, writer in self._writers.items()}


def split(events: Iterable[Event], folder: Path, files: Mapping[str, str], *, use: str) -> dict[str, int]:
    """Write one file in ``folder`` for each device (``files``: recorded name → file name); returns its number of jobs.

    ``use`` is that of :class:`RecordingSplitter`.
    """
    splitter = RecordingSplitter(folder, use=use)
    for device, file in files.items():
        splitter.add(device, file)
    for event in events:
        splitter.take(event)
    return splitter.close()


def gather(events: Iterable[Event], *, use: str) -> dict[str, dict[int, RecordedJob]]:
    """All jobs of a trace in memory: device → number → job."""
    found: dict[str, dict[int, RecordedJob]] = {}
    reader = _ChangeReader(use)
    for event in events:
        for device, number, change in reader.changes(event):
            _add(found.setdefault(device, {}), number, change)
    return found


Change: TypeAlias = "tuple[RecordedTransfer, bool] | RecordedSuspension | Poison | float | None"
"""A transfer, and whether it is an upload; a suspension; a poison; the seconds of a step; None: the job starts over."""
_JobChange: TypeAlias = "tuple[str, int, Change]"
"""Device, number of its job, and one thing that an event records about it."""


def _add(jobs: dict[int, RecordedJob], number: int, change: Change) -> None:
    job = jobs.get(number)
    if job is None:
        job = jobs[number] = RecordedJob(downloads=[], uploads=[])
    match change:
        case None:
            jobs[number] = RecordedJob(downloads=[], uploads=[])
        case RecordedSuspension():
            job.suspension = change
        case Poison():
            job.poison = change
        case (transfer, bool(up)):
            (job.uploads if up else job.downloads).append(transfer)
        case float():
            job.step_seconds = change


class _ChangeReader:
    """Takes the events of a trace one after another and returns what each of them records about jobs."""

    def __init__(self, use: str) -> None:
        self._use = use
        self._job_of: dict[str, dict[int, int]] = {}  # device → ticket → number of the job, for the last few
        self._no_jobs: set[int] = set()
        self._begun: set[int] = set()  # tickets in flight when the run was interrupted: they start with a download
        self._resumed = False
        self._readers: dict[type[Event], Callable[[Any], Sequence[_JobChange]]] = {
            trace.Dispatched: self._dispatched,
            trace.Downloaded: self._transfer,
            trace.Uploaded: self._transfer,
            trace.Trained: self._trained,  # not Abandoned: a job that is cut off in a step has no seconds per step
            trace.Suspended: self._suspended,
            trace.Poisoned: self._poisoned,
            trace.Resent: self._resent,
        }

    def changes(self, event: Event) -> Sequence[_JobChange]:
        kind = type(event)
        self._resumed = kind is trace.Resumed or (self._resumed and kind is trace.Resent)
        read = self._readers.get(kind)
        return () if read is None else read(event)

    def _dispatched(self, event: trace.Dispatched) -> Sequence[_JobChange]:
        if event.steps == 0 or event.for_cluster:
            self._no_jobs.add(event.ticket)  # the final model, a model for a whole cluster, or a gradient
        return ()

    def _resent(self, event: trace.Resent) -> Sequence[_JobChange]:
        if self._resumed:
            self._begun.add(event.ticket)
        return ()

    def _transfer(self, event: trace.TransferEvent) -> Sequence[_JobChange]:
        if event.ticket in self._no_jobs:
            return ()
        tickets = self._job_of.setdefault(event.device, {})
        tickets[event.ticket] = event.job
        while len(tickets) > _JOBS_OPEN:
            del tickets[next(iter(tickets))]
        seconds = RecordedTransfer(event.asked - (event.absent or 0.0), event.dropped)
        transfer = (event.device, event.job, (seconds, isinstance(event, trace.Uploaded)))
        if event.ticket in self._begun and isinstance(event, trace.Downloaded):
            self._begun.remove(event.ticket)
            return (event.device, event.job, None), transfer
        return (transfer,)

    def _trained(self, event: trace.Trained) -> Sequence[_JobChange]:
        seconds = event.asked if self._use == "asked" else event.obtained
        number = self._number(event)
        if number is None or not seconds or not event.steps:  # asked is 0 if the device is not throttled
            return ()
        return ((event.device, number, seconds / event.steps),)

    def _suspended(self, event: trace.Suspended) -> Sequence[_JobChange]:
        number = self._number(event)
        if number is None or event.away:
            return ()
        return ((event.device, number, RecordedSuspension(event.steps, event.asked)),)

    def _poisoned(self, event: trace.Poisoned) -> Sequence[_JobChange]:
        number = self._number(event)
        return () if number is None else ((event.device, number, Poison(event.how, event.factor)),)

    def _number(self, event: trace.TicketEvent) -> int | None:
        """The number of the job with this ticket; None if no transfer of it is known."""
        return self._job_of.get(event.device, {}).get(event.ticket)


class _Writer:
    """Keeps the last few jobs of a device open and appends complete ones to its file."""

    def __init__(self, path: Path, device: str) -> None:
        self._path, self._device, self._written, self._changes = path, device, 0, 0
        self._lines: list[bytes] = []
        self._jobs: dict[int, RecordedJob] = {}
        path.write_bytes(b"")

    def change(self, number: int, change: Change) -> None:
        if number < self._written:
            return
        self._changes += 1
        if number > _JOBS_MISSING + _JOBS_MISSING_FOR_EACH * self._changes:
            raise UserError(
                f"{self._device}: the trace has its job {number:,}, but almost none before it; choose another run"
            )
        _add(self._jobs, number, change)
        while self._written <= number - _JOBS_OPEN:
            self._complete()

    def close(self) -> int:
        while self._jobs:
            self._complete()
        self._flush()
        return self._written

    def _complete(self) -> None:
        self._lines.append(_encoder.encode(self._jobs.pop(self._written, RecordedJob())))
        self._written += 1
        if len(self._lines) >= _LINES_IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            with self._path.open("ab") as file:
                file.write(b"\n".join(self._lines) + b"\n")
            self._lines.clear()
