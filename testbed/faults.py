"""The fault timetable: what will go wrong with each job of each device, fixed before the run.

Every draw is addressed by (seed, device, what, job, attempt) through a counter-based generator. Nothing that
happens in a run can shift it, so two rules with the same seed meet the same drops, jitters and suspensions.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from testbed.fleet import DeviceSpec


@dataclass(frozen=True, slots=True)
class Fate:
    """What the link does to one transfer. ``delay_noise`` and ``rate_noise`` are standard normal draws."""

    dropped: bool
    delay_noise: float
    rate_noise: float


@dataclass(frozen=True, slots=True)
class Suspension:
    """The device hangs for ``seconds`` when it has done the share ``at`` of the job's steps."""

    at: float
    seconds: float


class Timetable(Protocol):
    """Faults of one device, by the number of its job and of the attempt at a transfer (both from 0)."""

    def download(self, job: int, attempt: int) -> Fate: ...
    def upload(self, job: int, attempt: int) -> Fate: ...
    def suspension(self, job: int) -> Suspension | None: ...


class _Stream(enum.IntEnum):
    DOWNLOAD = 0
    UPLOAD = 1
    SUSPENSION = 2


_SMOOTH = Fate(dropped=False, delay_noise=0.0, rate_noise=0.0)


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

    def download(self, job: int, attempt: int) -> Fate:
        return self._fate(_Stream.DOWNLOAD, job, attempt, self.download_drop, self.noisy_download)

    def upload(self, job: int, attempt: int) -> Fate:
        return self._fate(_Stream.UPLOAD, job, attempt, self.upload_drop, self.noisy_upload)

    def suspension(self, job: int) -> Suspension | None:
        if self.suspend == 0:
            return None
        chance, at, length = self._draw(_Stream.SUSPENSION, job, 0).random(3)
        if chance >= self.suspend:
            return None
        return Suspension(at=float(at), seconds=float(length) * self.suspend_max)

    def _fate(self, stream: _Stream, job: int, attempt: int, drop: float, noisy: bool) -> Fate:
        if drop == 0 and not noisy:
            return _SMOOTH
        draw = self._draw(stream, job, attempt)
        dropped = bool(draw.random() < drop)
        delay_noise, rate_noise = draw.standard_normal(2)
        return Fate(dropped=dropped, delay_noise=float(delay_noise), rate_noise=float(rate_noise))

    def _draw(self, stream: _Stream, job: int, attempt: int) -> np.random.Generator:
        # the first counter word is the one that generation itself advances: leave it at 0
        counter = [0, job, attempt, int(stream)]
        return np.random.Generator(np.random.Philox(key=[self.seed, self.device], counter=counter))


def timetable(spec: DeviceSpec, seed: int) -> SeededTimetable:
    """The timetable of one device of a run."""
    return SeededTimetable(
        seed=seed,
        device=spec.index,
        download_drop=spec.down.drop,
        upload_drop=spec.up.drop,
        noisy_download=spec.down.jitter > 0 or spec.down.spread > 0,
        noisy_upload=spec.up.jitter > 0 or spec.up.spread > 0,
        suspend=spec.suspend,
        suspend_max=spec.suspend_max,
    )
