"""Whether several runs met the same delays: the paired comparison of rules that were replayed on one recording.

A job is compared as far as each run came with it: what one run cut off is compared among the others. Where in a job a
device hung is no matter here: a rule with fewer local steps has another place for it, and the same seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from testbed.emulation.recorded import RecordedJob, RecordedTransfer, Recording

TOLERANCE = 1e-6
"""Seconds. What is divided by a number of steps and multiplied again may differ in the last digits."""

Place: TypeAlias = tuple[str, int]
"""What was met, and at which attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDifference:
    """Something that the runs did not all meet alike."""

    device: str
    job: int
    what: str
    attempt: int
    met: tuple[float | None, ...]
    """By each run: seconds, of computing per step; 1 for a transfer that was lost, 0 for one that was not. None where a
    run did not come so far.
    """
    apart: float


@dataclass(slots=True, kw_only=True)
class Pairs:
    """One device over all runs."""

    device: str
    jobs: int = 0
    """Those that all of them did, or at least began."""
    apart: dict[str, float] = field(default_factory=dict)
    """How far apart they are at most, in each thing that they met."""
    first: JobDifference | None = None

    def as_row(self) -> dict[str, Any]:
        seconds = {f"{what}_s": self.apart.get(what, 0.0) for what in ("computing", "download", "upload")}
        return {
            "device": self.device,
            "jobs": self.jobs,
            **seconds,
            "same_drops": not (self.apart.get("download lost") or self.apart.get("upload lost")),
            "same_suspensions": self.apart.get("suspension", 0.0) <= TOLERANCE,
        }


def compare(device: str, runs: Sequence[Recording]) -> Pairs:
    """The jobs of one device, number by number."""
    pairs = Pairs(device=device)
    for number, jobs in enumerate(zip(*runs, strict=False)):
        met = [dict(_met(job)) for job in jobs]
        if not all(met):  # a run that tells nothing of the job did not do it
            continue
        pairs.jobs += 1
        for place in dict.fromkeys(place for each in met for place in each):
            values = tuple(each.get(place) for each in met)
            known = [value for value in values if value is not None]
            apart, (what, attempt) = max(known) - min(known), place
            pairs.apart[what] = max(pairs.apart.get(what, 0.0), apart)
            if apart > TOLERANCE and pairs.first is None:
                pairs.first = JobDifference(
                    device=device, job=number, what=what, attempt=attempt, met=values, apart=apart
                )
    return pairs


def _met(job: RecordedJob) -> Iterator[tuple[Place, float]]:
    """In the order in which it was met."""
    yield from _ways("download", job.downloads)
    if job.hung is not None or job.uploads:  # that it did not hang is known only when it has computed everything
        yield ("suspension", 0), job.hung.seconds if job.hung is not None else 0.0
    if job.step_seconds is not None:
        yield ("computing", 0), job.step_seconds
    yield from _ways("upload", job.uploads)


def _ways(what: str, ways: Sequence[RecordedTransfer]) -> Iterator[tuple[Place, float]]:
    for attempt, way in enumerate(ways):
        yield (what, attempt), way.seconds
        yield (f"{what} lost", attempt), float(way.dropped)
