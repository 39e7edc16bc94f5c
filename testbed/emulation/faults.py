"""The fault timetable: the drops, noise and suspensions of each job of each device, fixed before the run.

Every draw has an address (seed, device, stream, job, attempt) in a counter-based generator (ADR 5). Nothing in a run
changes it, so two strategies with the same seed have the same drops, noise and suspensions.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from testbed.emulation.poison import Poison
from testbed.emulation.recorded import RecordedJob, RecordedTransfer, Recording
from testbed.profile import radio
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import ScriptedEvent
from testbed.profile.script import drop_at


@dataclass(frozen=True, slots=True)
class TransferFate:
    """The faults of one transfer. ``delay_noise`` and ``rate_noise`` are standard normal draws."""

    dropped: bool
    delay_noise: float
    rate_noise: float
    seconds: float | None = None
    """The recorded seconds of the transfer, without absences: they replace the delay and the rate of the link."""
    chance: float | None = None
    """The draw, from 0 to 1, that decides whether it is dropped; None if there was none."""


@dataclass(frozen=True, slots=True)
class PlannedSuspension:
    """A suspension of ``seconds`` after the share ``at`` of the job's steps, or after ``steps`` of them."""

    at: float
    seconds: float
    steps: int | None = None

    def after(self, steps: int) -> int:
        """Return after how many of the job's steps it begins; never after all of them."""
        return min(self.steps, steps - 1) if self.steps is not None else int(self.at * steps)


class Timetable(Protocol):
    """The faults of one device, by the number of its job and of the attempt at a transfer (both from 0)."""

    def download(self, job: int, attempt: int) -> TransferFate: ...
    def upload(self, job: int, attempt: int) -> TransferFate: ...
    def suspension(self, job: int) -> PlannedSuspension | None: ...
    def step_seconds(self, job: int) -> float | None:
        """Return the recorded seconds of a local step. None: the speed of the device decides."""
        ...

    def poison(self, job: int) -> Poison | None:
        """Return how an update was poisoned in the recording. None: it has no such job, and the profile decides."""
        ...

    def poison_noise(self, job: int) -> np.random.Generator:
        """Return the generator of the noise in a poisoned update."""
        ...


class _Stream(enum.IntEnum):
    DOWNLOAD = 0
    UPLOAD = 1
    SUSPENSION = 2
    RESAMPLE = 3
    FADING = 4
    POISON = 5


_SMOOTH = TransferFate(dropped=False, delay_noise=0.0, rate_noise=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededTimetable:
    """A timetable drawn from probabilities.

    ``noisy_*`` is False for a direction without jitter and spread. Then a transfer that cannot be dropped needs no
    draw; to skip it changes nothing else, since each draw has its own address.
    """

    seed: int
    device: int
    download_drop: float = 0.0
    upload_drop: float = 0.0
    noisy_download: bool = True
    noisy_upload: bool = True
    suspend: float = 0.0
    suspend_max: float = 0.0

    def download(self, job: int, attempt: int) -> TransferFate:
        return self._fate(_Stream.DOWNLOAD, job, attempt, self.download_drop, self.noisy_download)

    def upload(self, job: int, attempt: int) -> TransferFate:
        return self._fate(_Stream.UPLOAD, job, attempt, self.upload_drop, self.noisy_upload)

    def suspension(self, job: int) -> PlannedSuspension | None:
        if self.suspend == 0:
            return None
        chance, at, length = _drawing(self.seed, self.device, _Stream.SUSPENSION, job, 0).random(3)
        if chance >= self.suspend:
            return None
        return PlannedSuspension(at=float(at), seconds=float(length) * self.suspend_max)

    def step_seconds(self, job: int) -> float | None:
        return None

    def poison(self, job: int) -> Poison | None:
        return None

    def poison_noise(self, job: int) -> np.random.Generator:
        return self._draw(_Stream.POISON, job, 0)

    def _fate(self, stream: _Stream, job: int, attempt: int, drop: float, noisy: bool) -> TransferFate:
        if drop == 0 and not noisy:
            return _SMOOTH
        draw = _drawing(self.seed, self.device, stream, job, attempt)
        chance = float(draw.random())
        delay_noise, rate_noise = draw.standard_normal(2)
        return TransferFate(
            dropped=chance < drop, delay_noise=float(delay_noise), rate_noise=float(rate_noise), chance=chance
        )

    def _draw(self, stream: _Stream, job: int, attempt: int) -> np.random.Generator:
        return _draw(self.seed, self.device, stream, job, attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTimetable:
    """The n-th job of a device has the faults of the n-th recorded job; where those are unknown, they are drawn.

    After the end of a recording, it is repeated (``loop``), or its jobs are drawn at random (``resample``; by the
    number of the job, so that no strategy changes it). With ``stop`` the run ends there.
    """

    jobs: Recording
    end: str
    otherwise: SeededTimetable

    def download(self, job: int, attempt: int) -> TransferFate:
        found = self._job(job)
        if found is None or not found.downloads:  # it was replaced during its download
            return self.otherwise.download(job, attempt)
        return _recorded(found.downloads, attempt)

    def upload(self, job: int, attempt: int) -> TransferFate:
        found = self._job(job)
        if found is None or not found.uploads:  # it ended before its upload
            return self.otherwise.upload(job, attempt)
        return _recorded(found.uploads, attempt)

    def suspension(self, job: int) -> PlannedSuspension | None:
        found = self._job(job)
        if found is None:
            return self.otherwise.suspension(job)
        if found.suspension is None:
            return None
        return PlannedSuspension(at=0.0, seconds=found.suspension.seconds, steps=found.suspension.steps)

    def step_seconds(self, job: int) -> float | None:
        """Return the recorded seconds; those of the job before if this one was abandoned: a strategy may finish it."""
        place = self._place(job)
        if place is None:
            return None
        known = (each.step_seconds for each in self.jobs[place::-1] if each.step_seconds is not None)
        return next(known, None)

    def poison(self, job: int) -> Poison | None:
        found = self._job(job)
        return None if found is None else found.poison

    def poison_noise(self, job: int) -> np.random.Generator:
        return self.otherwise.poison_noise(job)

    def _job(self, number: int) -> RecordedJob | None:
        place = self._place(number)
        return None if place is None else self.jobs[place]

    def _place(self, number: int) -> int | None:
        """Return the index of the recorded job for this one; None if there is none."""
        count = len(self.jobs)
        if number < count:
            return number
        if self.end == "stop" or not count:
            return None
        if self.end == "loop":
            return number % count
        draw = _draw(self.otherwise.seed, self.otherwise.device, _Stream.RESAMPLE, number, 0)
        return int(draw.integers(count))


def _recorded(attempts: Sequence[RecordedTransfer], attempt: int) -> TransferFate:
    """Return the fate of an attempt. One after the last recorded takes as long as that one, and arrives."""
    if attempt < len(attempts):
        return replace(_SMOOTH, dropped=attempts[attempt].dropped, seconds=attempts[attempt].seconds)
    return replace(_SMOOTH, seconds=attempts[-1].seconds)


def _draw(seed: int, device: int, stream: _Stream, job: int, attempt: int) -> np.random.Generator:
    # the generator itself advances the first counter word: leave it at 0
    return np.random.Generator(np.random.Philox(key=[seed, device], counter=[0, job, attempt, int(stream)]))


_PHILOX = np.random.Philox(key=[0, 0])
_DRAWING = np.random.Generator(_PHILOX)
_NO_BUFFER = np.zeros(4, np.uint64)


def _drawing(seed: int, device: int, stream: _Stream, job: int, attempt: int) -> np.random.Generator:
    """Return a generator with the draws of ``_draw``, for use at once: there is one, and setting it costs a tenth."""
    _PHILOX.state = {
        "bit_generator": "Philox",
        "state": {
            "counter": np.array([0, job, attempt, int(stream)], np.uint64),
            "key": np.array([seed, device], np.uint64),
        },
        "buffer": _NO_BUFFER,
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return _DRAWING


def fading(seed: int, device: int, version: int) -> float:
    """Return ρ of a device's channel in the round after a version: the same for every strategy."""
    return float(radio.fading(1, _draw(seed, device, _Stream.FADING, version, 0))[0])


def scripted(fate: TransferFate, script: Sequence[ScriptedEvent], moment: float) -> TransferFate:
    """Return the fate of a transfer that begins at ``moment``, with the drop probability of the script.

    The draw stays the same: a transfer that is dropped at 10 % is dropped at 20 %, too.
    """
    drop = drop_at(script, moment) if script else None
    return fate if drop is None or fate.chance is None else replace(fate, dropped=fate.chance < drop)


def timetable(spec: DeviceSpec, seed: int) -> SeededTimetable:
    """Return the timetable of one device of a run."""
    scripted_drops = any(event.do == "drop" for event in spec.script)  # then each transfer needs its draw
    return SeededTimetable(
        seed=seed,
        device=spec.index,
        download_drop=spec.down.drop,
        upload_drop=spec.up.drop,
        noisy_download=scripted_drops or spec.down.jitter > 0 or spec.down.spread > 0,
        noisy_upload=scripted_drops or spec.up.jitter > 0 or spec.up.spread > 0,
        suspend=spec.suspend,
        suspend_max=spec.suspend_max,
    )
