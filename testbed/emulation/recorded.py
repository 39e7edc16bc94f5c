"""What a replay reads from a recorded run: the jobs of each device, and the order of arrivals."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from testbed.common.fields import Number
from testbed.emulation.poison import Poison


class RecordedTransfer(msgspec.Struct, frozen=True, array_like=True):
    """One attempt at a transfer, and its seconds without absences."""

    seconds: Number
    dropped: bool


class RecordedSuspension(msgspec.Struct, frozen=True, array_like=True):
    """A suspension: after how many steps, and for how many seconds."""

    steps: int
    seconds: Number


class RecordedJob(msgspec.Struct, array_like=True):
    """One job of one device. The parts that the job did not reach are empty or None."""

    downloads: list[RecordedTransfer] = []
    uploads: list[RecordedTransfer] = []
    step_seconds: Number | None = None
    suspension: RecordedSuspension | None = None
    poison: Poison | None = None


Recording: TypeAlias = list[RecordedJob]


def read_jobs(path: Path) -> Recording:
    """Read the jobs of one device."""
    decoder = msgspec.json.Decoder(RecordedJob)
    with path.open("rb") as file:
        return [decoder.decode(line) for line in file]


class RecordedArrival(msgspec.Struct, frozen=True, array_like=True):
    """An update that a strict replay handles next: its device, its ticket, and the moment."""

    device: str
    ticket: int
    t: float
    started: float | None = None
    finished: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedReplay:
    """What the processes of a replay need; the files are in the private folder of the run."""

    recordings: dict[str, str]
    """Device → file with its recording."""
    jobs: dict[str, int]
    """Device → number of recorded jobs."""
    absences: dict[str, str] = field(default_factory=dict)
    """Device → availability trace, if the device had absences."""
    arrivals: str
    """File with the recorded arrivals, in order."""
    wakes: int
    """How often the strategy was woken in the recorded run; 0 if the trace is incomplete."""
    torn: int | None = None
    """The number of the last line of the trace, if it is incomplete."""


def read_arrivals(path: Path) -> list[RecordedArrival]:
    """Read the recorded arrivals, in order."""
    decoder = msgspec.json.Decoder(RecordedArrival)
    with path.open("rb") as file:
        return [decoder.decode(line) for line in file]
