"""What a trace recorded of each device's jobs, job by job, so that they can be met again.

A recording holds, for the n-th job of a device: how long each attempt at its transfers took and whether it was lost,
how long a local step took, and where it hung for how long. When the device was away is no matter of its jobs, but of
the clock: see ``testbed.replay.replay_setup``. A trace is split into one small file per device in one pass; nothing but the jobs
under way is held in memory.
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
"""A restarted device tells of an old job while the models of the next ones are on their way, and perhaps lost."""
_LINES_IN_MEMORY = 64


_encoder = msgspec.json.Encoder()


def split(events: Iterable[Event], folder: Path, files: Mapping[str, str], *, use: str) -> dict[str, int]:
    """One file in ``folder`` for each device of the trace: recorded name → file name. Gives the jobs of each.

    ``use``: ``asked`` takes the computing that the recorded run wanted, ``obtained`` what it got. Transfers and
    suspensions are as they were due: that a process looked late moved nothing after it (ADR 7).
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
"""A transfer, and whether it went up; a suspension; the seconds of a step; or, None, that it begins anew."""


def _add(jobs: dict[int, RecordedJob], number: int, change: Change) -> None:
    job = jobs.get(number)
    if job is None:
        job = jobs[number] = RecordedJob(downloads=[], uploads=[])
    match change:
        case None:
            jobs[number] = RecordedJob(downloads=[], uploads=[])
        case RecordedSuspension():
            job.hung = change
        case (way, bool(up)):
            (job.uploads if up else job.downloads).append(way)
        case float():
            job.step_seconds = change


def _changes(events: Iterable[Event], use: str) -> Iterator[tuple[str, int, Change]]:
    """Device, number of its job, and what the trace says about it."""
    job_of: dict[str, dict[int, int]] = {}  # device → ticket → number of the job, for the last few
    final: set[int] = set()
    begun: set[int] = set()  # tickets under way when the run was interrupted: they begin anew with the first download
    resumed = False
    for event in events:
        resumed = isinstance(event, trace.Resumed) or (resumed and isinstance(event, trace.Resent))
        if resumed and isinstance(event, trace.Resent):
            begun.add(event.ticket)
        elif isinstance(event, trace.Dispatched):
            if event.steps == 0 or event.for_cluster:
                final.add(event.ticket)  # the final model is no job, nor is one for a cluster
        elif isinstance(event, trace.TransferEvent):
            if event.ticket in final:
                continue
            tickets = job_of.setdefault(event.device, {})
            if event.ticket in begun and isinstance(event, trace.Downloaded):
                begun.remove(event.ticket)
                yield event.device, event.job, None
            tickets[event.ticket] = event.job
            while len(tickets) > _JOBS_OPEN:
                del tickets[next(iter(tickets))]
            way = RecordedTransfer(event.asked - (event.absent or 0.0), event.dropped)
            yield event.device, event.job, (way, isinstance(event, trace.Uploaded))
        elif isinstance(event, (trace.Trained, trace.Suspended)):
            # not of work that was thrown away: in the midst of a step, nobody can say how long one takes
            number = job_of.get(event.device, {}).get(event.ticket)
            if number is None:
                continue
            if isinstance(event, trace.Suspended):
                if not event.away:
                    yield event.device, number, RecordedSuspension(event.steps, event.asked)
            elif seconds := float(getattr(event, use)):  # 0 is asked of a device that is not throttled
                yield event.device, number, seconds / event.steps


class _Writer:
    """Keeps the last few jobs of a device open, and appends what is complete to its file."""

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
