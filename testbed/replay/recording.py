"""Recordings: the jobs of each device, read from a trace, so that a replay can repeat them.

A recording contains, for the n-th job of a device, the seconds of each attempt at a transfer and whether it was lost,
the seconds of a local step, and its suspension. Absences of a device depend on the clock, not on jobs: see
``testbed.replay.replay_setup``. One pass splits a trace into one small file per device; only jobs in flight are in
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from testbed.emulation.recorded import RecordedJob, RecordedSuspension, RecordedTransfer
from testbed.history import trace
from testbed.history.trace import Event

_JOBS_OPEN = 64
"""A restarted device may report an old job while the models of later ones are in transfer or lost."""
_LINES_IN_MEMORY = 64

_encoder = msgspec.json.Encoder()


def split(events: Iterable[Event], folder: Path, files: Mapping[str, str], *, use: str) -> dict[str, int]:
    """Write one file in ``folder`` for each device (``files``: recorded name → file name); returns its number of jobs.

    ``use`` chooses the seconds of computing: ``asked`` or ``obtained`` in the recorded run. Transfers and suspensions
    are recorded as they were due: a process that woke late delayed nothing after it (ADR 7).
    """
    writers = {device: _Writer(folder / name) for device, name in files.items()}
    for device, number, change in _changes(events, use):
        if device in writers:
            writers[device].change(number, change)
    return {device: writer.close() for device, writer in writers.items()}


def gather(events: Iterable[Event], *, use: str) -> dict[str, dict[int, RecordedJob]]:
    """All jobs of a trace in memory: device → number → job."""
    found: dict[str, dict[int, RecordedJob]] = {}
    for device, number, change in _changes(events, use):
        _add(found.setdefault(device, {}), number, change)
    return found


Change: TypeAlias = "tuple[RecordedTransfer, bool] | RecordedSuspension | float | None"
"""A transfer, and whether it is an upload; a suspension; the seconds of a step; or None: the job starts again."""


def _add(jobs: dict[int, RecordedJob], number: int, change: Change) -> None:
    job = jobs.get(number)
    if job is None:
        job = jobs[number] = RecordedJob(downloads=[], uploads=[])
    match change:
        case None:
            jobs[number] = RecordedJob(downloads=[], uploads=[])
        case RecordedSuspension():
            job.suspension = change
        case (transfer, bool(up)):
            (job.uploads if up else job.downloads).append(transfer)
        case float():
            job.step_seconds = change


def _changes(events: Iterable[Event], use: str) -> Iterator[tuple[str, int, Change]]:
    """Device, number of its job, and one thing that the trace records about it."""
    job_of: dict[str, dict[int, int]] = {}  # device → ticket → number of the job, for the last few
    no_jobs: set[int] = set()
    begun: set[int] = set()  # tickets in flight when the run was interrupted: they start again with a download
    resumed = False
    for event in events:
        resumed = isinstance(event, trace.Resumed) or (resumed and isinstance(event, trace.Resent))
        if resumed and isinstance(event, trace.Resent):
            begun.add(event.ticket)
        elif isinstance(event, trace.Dispatched):
            if event.steps == 0 or event.for_cluster:
                no_jobs.add(event.ticket)  # the final model, or a model for a whole cluster
        elif isinstance(event, trace.TransferEvent):
            if event.ticket in no_jobs:
                continue
            tickets = job_of.setdefault(event.device, {})
            if event.ticket in begun and isinstance(event, trace.Downloaded):
                begun.remove(event.ticket)
                yield event.device, event.job, None
            tickets[event.ticket] = event.job
            while len(tickets) > _JOBS_OPEN:
                del tickets[next(iter(tickets))]
            transfer = RecordedTransfer(event.asked - (event.absent or 0.0), event.dropped)
            yield event.device, event.job, (transfer, isinstance(event, trace.Uploaded))
        elif isinstance(event, (trace.Trained, trace.Suspended)):
            # not Abandoned: a job that is cut off within a step has no seconds per step
            number = job_of.get(event.device, {}).get(event.ticket)
            if number is None:
                continue
            if isinstance(event, trace.Suspended):
                if not event.away:
                    yield event.device, number, RecordedSuspension(event.steps, event.asked)
            elif seconds := float(getattr(event, use)):  # asked is 0 if the device is not throttled
                yield event.device, number, seconds / event.steps


class _Writer:
    """Keeps the last few jobs of a device open and appends complete ones to its file."""

    def __init__(self, path: Path) -> None:
        self._path, self._written = path, 0
        self._lines: list[bytes] = []
        self._jobs: dict[int, RecordedJob] = {}
        path.write_bytes(b"")

    def change(self, number: int, change: Change) -> None:
        if number < self._written:
            return
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
