"""What a replay takes from a recorded run: the jobs of each device, and the order of arrivals."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from testbed.wire.messages import Number


class RecordedTransfer(msgspec.Struct, frozen=True, array_like=True):
    """One attempt at a transfer, and the seconds that it took while the device was there."""

    seconds: Number
    dropped: bool


class RecordedSuspension(msgspec.Struct, frozen=True, array_like=True):
    """A suspension after so many steps, for so many seconds."""

    steps: int
    seconds: Number


class RecordedJob(msgspec.Struct, array_like=True):
    """One job of one device. What the trace does not tell is missing: the job was cut off before."""

    downloads: list[RecordedTransfer] = []
    uploads: list[RecordedTransfer] = []
    step_seconds: Number | None = None
    hung: RecordedSuspension | None = None


Recording: TypeAlias = list[RecordedJob]


def read_jobs(path: Path) -> Recording:
    """The jobs of one device."""
    decoder = msgspec.json.Decoder(RecordedJob)
    with path.open("rb") as file:
        return [decoder.decode(line) for line in file]


class RecordedArrival(msgspec.Struct, frozen=True, array_like=True):
    """The next update that is taken up in a strict replay: whose it is, for which ticket, and at which moment."""

    device: str
    ticket: int
    t: float
    started: float | None = None
    finished: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedReplay:
    """What the processes of a replay need; files are in the run's private folder."""

    recordings: dict[str, str]
    """Device → file with its recording."""
    jobs: dict[str, int]
    """Device → how many jobs that holds."""
    absences: dict[str, str] = field(default_factory=dict)
    """Device → availability trace, for those that were away."""
    turns: str
    """File with the turns, in order."""
    wakes: int
    """How often the rule was woken in the recorded run; 0 where the trace breaks off."""
    torn: int | None = None
    """The last line of the trace, if it is torn."""


def read_arrivals(path: Path) -> list[RecordedArrival]:
    decoder = msgspec.json.Decoder(RecordedArrival)
    with path.open("rb") as file:
        return [decoder.decode(line) for line in file]
