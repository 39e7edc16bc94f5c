"""Whether several runs met the same delays: the paired comparison of strategies that replayed one recording.

A job is compared as far as each run did it: what one run cut off is compared among the others. The step at which a
suspension came is not compared: a strategy with fewer local steps has another step, and the same seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from testbed.emulation.recorded import RecordedJob, RecordedTransfer, Recording
from testbed.trace_tools.delay_tolerance import TOLERANCE

Place: TypeAlias = tuple[str, int]
"""The kind of delay or loss, and the number of the attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDifference:
    """A delay or loss that is not the same in all runs."""

    device: str
    job: int
    what: str
    attempt: int
    observed: tuple[float | None, ...]
    """For each run: seconds (of computing: per step), or 1 for a lost transfer and 0 for another; None if the run did
    not get that far.
    """
    apart: float


class DeviceDifferences(msgspec.Struct, frozen=True, kw_only=True):
    """The largest differences between two runs of a device, in seconds; computing: in seconds per step."""

    device: str
    jobs: int
    """Jobs that all runs did, or at least began."""
    computing_s: float
    download_s: float
    upload_s: float
    same_drops: bool
    same_suspensions: bool
    same_absences: bool


@dataclass(slots=True, kw_only=True)
class Pairs:
    """One device over all runs."""

    device: str
    jobs: int = 0
    """Jobs that all runs did, or at least began."""
    apart: dict[str, float] = field(default_factory=dict)
    """Kind → the largest difference between two runs."""
    first: JobDifference | None = None

    def differences(self, *, same_absences: bool) -> DeviceDifferences:
        return DeviceDifferences(
            device=self.device,
            jobs=self.jobs,
            computing_s=self.apart.get("computing", 0.0),
            download_s=self.apart.get("download", 0.0),
            upload_s=self.apart.get("upload", 0.0),
            same_drops=not (self.apart.get("download lost") or self.apart.get("upload lost")),
            same_suspensions=self.apart.get("suspension", 0.0) <= TOLERANCE,
            same_absences=same_absences,
        )


def compare(device: str, runs: Sequence[Recording]) -> Pairs:
    """Compare the n-th jobs of one device in all runs, for each n."""
    pairs = Pairs(device=device)
    for number, jobs in enumerate(zip(*runs, strict=False)):
        observed = [dict(_observed(job)) for job in jobs]
        if not all(observed):  # one run did not do this job
            continue
        pairs.jobs += 1
        for place in dict.fromkeys(place for each in observed for place in each):
            values = tuple(each.get(place) for each in observed)
            known = [value for value in values if value is not None]
            apart, (what, attempt) = max(known) - min(known), place
            pairs.apart[what] = max(pairs.apart.get(what, 0.0), apart)
            if apart > TOLERANCE and pairs.first is None:
                pairs.first = JobDifference(
                    device=device, job=number, what=what, attempt=attempt, observed=values, apart=apart
                )
    return pairs


def _observed(job: RecordedJob) -> Iterator[tuple[Place, float]]:
    """The delays and losses of a job, in the order in which they happened."""
    yield from _transfers("download", job.downloads)
    if job.suspension is not None or job.uploads:  # without an upload, a suspension may have been still to come
        yield ("suspension", 0), job.suspension.seconds if job.suspension is not None else 0.0
    if job.step_seconds is not None:
        yield ("computing", 0), job.step_seconds
    yield from _transfers("upload", job.uploads)


def _transfers(what: str, transfers: Sequence[RecordedTransfer]) -> Iterator[tuple[Place, float]]:
    for attempt, transfer in enumerate(transfers):
        yield (what, attempt), transfer.seconds
        yield (f"{what} lost", attempt), float(transfer.dropped)
