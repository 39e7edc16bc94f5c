"""Forecasts for strategies that grant rates: the radio cell, its channels and how long devices compute."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.emulation.faults import fading
from testbed.profile.fleet import DeviceSpec
from testbed.profile.radio import Cell
from testbed.profile.schema import Direction
from testbed.wire.compression_method import method_of
from testbed.wire.messages import Update
from testbed.wire.training_job import Job


class CellForecast:
    """The forecast for devices in a radio cell.

    The channel of a round is drawn by the number of the round, so it is the same under every strategy. Computing is
    estimated from the profile until the first update of a device arrives, and from its last update after that. So a
    slower device is noticed with its next update, and a suspension makes a device look slow for one job.
    """

    def __init__(self, cell: Cell, seed: int, fleet: Mapping[str, DeviceSpec], samples: Mapping[str, int], size: int):
        """``samples``: device → its samples. ``size``: bytes of a model."""
        self._cell, self._seed, self._fleet, self._samples, self._size = cell, seed, fleet, samples, size
        self._step_seconds: dict[str, float] = {}

    @property
    def bandwidth(self) -> float:
        return self._cell.bandwidth

    def snr(self, device: str, version: int) -> float:
        spec = self._fleet[device]
        assert spec.distance is not None  # every device of a profile with a cell has one
        return self._cell.snr(spec.distance, fading(self._seed, spec.index, version))

    def upload_bits(self, device: str, size: int) -> int:
        return 8 * method_of(self._fleet[device].compress_updates).nbytes(size)

    def seconds(self, device: str, job: Job) -> float:
        spec, samples = self._fleet[device], self._samples[device]
        steps = job.steps_over(samples)
        if device in self._step_seconds:
            computing = steps * self._step_seconds[device]
        else:
            computing = job.samples_after(steps, samples) * (spec.seconds_per_sample or 0.0)
        return _seconds(spec.down, self._size) + computing

    def observe(self, update: Update) -> None:
        """Take the computing time of an update as the estimate for the next job of its device."""
        self._step_seconds[update.device] = max(0.0, update.finished - update.started) / max(1, update.steps)


class NoForecast:
    """Stands for the forecast where there is no cell. Strategies that grant rates are refused there."""

    bandwidth = 0.0

    def snr(self, device: str, version: int) -> float:
        raise LookupError(f"{device} is in no radio cell")

    def upload_bits(self, device: str, size: int) -> int:
        raise LookupError(f"{device} is in no radio cell")

    def seconds(self, device: str, job: Job) -> float:
        raise LookupError(f"{device} is in no radio cell")

    def observe(self, update: Update) -> None:
        """Does nothing."""


def _seconds(link: Direction, size: int) -> float:
    """Return the seconds of a transfer without noise. For a link that follows a trace, only its delay."""
    return link.delay + (8 * size / (link.mbit * 1e6) if link.mbit is not None else 0.0)
