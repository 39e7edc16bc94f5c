"""The fault timetable: what will go wrong with each job of each device, fixed before the run.

Every draw is addressed by (seed, device, what, job, attempt) through a counter-based generator. Nothing that
happens in a run can shift it, so two rules with the same seed meet the same drops, jitters and suspensions.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from testbed.emulation.recorded import RecordedJob, RecordedTransfer, Recording
from testbed.profile import radio
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import ScriptedEvent
from testbed.profile.script import drop_at


@dataclass(frozen=True, slots=True)
class TransferFate:
    """What the link does to one transfer. ``delay_noise`` and ``rate_noise`` are standard normal draws."""

    dropped: bool
    delay_noise: float
    rate_noise: float
    seconds: float | None = None
    """What the transfer takes while the device is there, where that was recorded: the link's figures do not count."""
    chance: float | None = None
    """The draw that the loss hangs on, from 0 to 1; None where none was made."""


@dataclass(frozen=True, slots=True)
class PlannedSuspension:
    """The device hangs for ``seconds`` when it has done the share ``at`` of the job's steps, or ``steps`` of them."""

    at: float
    seconds: float
    steps: int | None = None

    def after(self, steps: int) -> int:
        """How many of the job's steps are done when it hangs; never all of them."""
        return min(self.steps, steps - 1) if self.steps is not None else int(self.at * steps)


class Timetable(Protocol):
    """Faults of one device, by the number of its job and of the attempt at a transfer (both from 0)."""

    def download(self, job: int, attempt: int) -> TransferFate: ...
    def upload(self, job: int, attempt: int) -> TransferFate: ...
    def suspension(self, job: int) -> PlannedSuspension | None: ...
    def step_seconds(self, job: int) -> float | None:
        """What a local step takes, where that was recorded; None: what the device's speed says."""
        ...


class _Stream(enum.IntEnum):
    DOWNLOAD = 0
    UPLOAD = 1
    SUSPENSION = 2
    RESAMPLE = 3
    FADING = 4


_SMOOTH = TransferFate(dropped=False, delay_noise=0.0, rate_noise=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededTimetable:
    """A timetable drawn from probabilities.

    ``noisy_*`` is False for a direction without jitter or spread; then a transfer that cannot be dropped needs no
    draw at all. Skipping it changes nothing else, since each draw has its own address.
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
        chance, at, length = self._draw(_Stream.SUSPENSION, job, 0).random(3)
        if chance >= self.suspend:
            return None
        return PlannedSuspension(at=float(at), seconds=float(length) * self.suspend_max)

    def step_seconds(self, job: int) -> float | None:
        return None

    def _fate(self, stream: _Stream, job: int, attempt: int, drop: float, noisy: bool) -> TransferFate:
        if drop == 0 and not noisy:
            return _SMOOTH
        draw = self._draw(stream, job, attempt)
        chance = float(draw.random())
        delay_noise, rate_noise = draw.standard_normal(2)
        return TransferFate(
            dropped=chance < drop, delay_noise=float(delay_noise), rate_noise=float(rate_noise), chance=chance
        )

    def _draw(self, stream: _Stream, job: int, attempt: int) -> np.random.Generator:
        return _draw(self.seed, self.device, stream, job, attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTimetable:
    """What befell the n-th job of a device in a recorded run befalls it again; where that is unknown, chance is asked.

    Behind its end, a recording begins anew (``loop``), or its jobs are drawn from (``resample``, by the number of the
    job: no rule can shift it). With ``stop`` the run ends there.
    """

    jobs: Recording
    end: str
    otherwise: SeededTimetable

    def download(self, job: int, attempt: int) -> TransferFate:
        found = self._job(job)
        if found is None or not found.downloads:  # it was replaced before it was there
            return self.otherwise.download(job, attempt)
        return _recorded(found.downloads, attempt)

    def upload(self, job: int, attempt: int) -> TransferFate:
        found = self._job(job)
        if found is None or not found.uploads:  # it was cut off before its upload
            return self.otherwise.upload(job, attempt)
        return _recorded(found.uploads, attempt)

    def suspension(self, job: int) -> PlannedSuspension | None:
        found = self._job(job)
        if found is None:
            return self.otherwise.suspension(job)
        return (
            None
            if found.hung is None
            else PlannedSuspension(at=0.0, seconds=found.hung.seconds, steps=found.hung.steps)
        )

    def step_seconds(self, job: int) -> float | None:
        """Of a job whose computing was cut off, it is what it was in the job before: any rule may finish it."""
        place = self._place(job)
        if place is None:
            return None
        told = (each.step_seconds for each in self.jobs[place::-1] if each.step_seconds is not None)
        return next(told, None)

    def _job(self, number: int) -> RecordedJob | None:
        place = self._place(number)
        return None if place is None else self.jobs[place]

    def _place(self, number: int) -> int | None:
        """Which of the recorded jobs this one meets."""
        count = len(self.jobs)
        if number < count:
            return number
        if self.end == "stop" or not count:
            return None
        if self.end == "loop":
            return number % count
        draw = _draw(self.otherwise.seed, self.otherwise.device, _Stream.RESAMPLE, number, 0)
        return int(draw.integers(count))


def _recorded(ways: Sequence[RecordedTransfer], attempt: int) -> TransferFate:
    """One attempt more than there were is as long as the last of them, and gets through."""
    if attempt < len(ways):
        return replace(_SMOOTH, dropped=ways[attempt].dropped, seconds=ways[attempt].seconds)
    return replace(_SMOOTH, seconds=ways[-1].seconds)


def _draw(seed: int, device: int, stream: _Stream, job: int, attempt: int) -> np.random.Generator:
    # the first counter word is the one that generation itself advances: leave it at 0
    return np.random.Generator(np.random.Philox(key=[seed, device], counter=[0, job, attempt, int(stream)]))


def fading(seed: int, device: int, version: int) -> float:
    """ρ of a device's channel in the round that follows a version: every rule meets the same."""
    return float(radio.fading(1, _draw(seed, device, _Stream.FADING, version, 0))[0])


def scripted(fate: TransferFate, script: Sequence[ScriptedEvent], moment: float) -> TransferFate:
    """What becomes of a transfer that begins at a moment at which the script may have changed the loss.

    The draw stays the same: a transfer that is lost at 10 % is lost at 20 %, too.
    """
    drop = drop_at(script, moment)
    return fate if drop is None or fate.chance is None else replace(fate, dropped=fate.chance < drop)


def timetable(spec: DeviceSpec, seed: int) -> SeededTimetable:
    """The timetable of one device of a run."""
    losing = any(event.do == "drop" for event in spec.script)  # then each transfer needs its draw
    return SeededTimetable(
        seed=seed,
        device=spec.index,
        download_drop=spec.down.drop,
        upload_drop=spec.up.drop,
        noisy_download=losing or spec.down.jitter > 0 or spec.down.spread > 0,
        noisy_upload=losing or spec.up.jitter > 0 or spec.up.spread > 0,
        suspend=spec.suspend,
        suspend_max=spec.suspend_max,
    )
