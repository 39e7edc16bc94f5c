"""What can be known of uploads before they happen: the cell, its channels, and how long devices compute."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.emulation.faults import fading
from testbed.profile.fleet import DeviceSpec
from testbed.profile.radio import Cell
from testbed.profile.schema import Direction
from testbed.wire.messages import Job, Update


class CellForecast:
    """Devices in a radio cell. The channel of a round is drawn by its number: every rule meets the same.

    How fast a device computes is what its profile says until its first update comes, and then what its last one took:
    a device that has slowed down is noticed with the next update, and one that hung is thought slow once.
    """

    def __init__(self, cell: Cell, seed: int, fleet: Mapping[str, DeviceSpec], samples: Mapping[str, int], size: int):
        """``size``: bytes of a model."""
        self._cell, self._seed, self._fleet, self._samples, self._size = cell, seed, fleet, samples, size
        self._step_seconds: dict[str, float] = {}

    @property
    def bandwidth(self) -> float:
        return self._cell.bandwidth

    def snr(self, device: str, version: int) -> float:
        spec = self._fleet[device]
        assert spec.distance is not None  # every device of a profile with a cell has one
        return self._cell.snr(spec.distance, fading(self._seed, spec.index, version))

    def seconds(self, device: str, job: Job) -> float:
        spec, samples = self._fleet[device], self._samples[device]
        steps = job.steps_over(samples)
        if device in self._step_seconds:
            computing = steps * self._step_seconds[device]
        else:
            computing = job.samples_after(steps, samples) * (spec.seconds_per_sample or 0.0)
        return _seconds(spec.down, self._size) + computing

    def heard(self, update: Update) -> None:
        self._step_seconds[update.device] = max(0.0, update.finished - update.started) / max(1, update.steps)


class NoForecast:
    """Where there is no cell. Rules that grant rates are refused there, so that nobody asks."""

    bandwidth = 0.0

    def snr(self, device: str, version: int) -> float:
        raise LookupError(f"{device} is in no radio cell")

    def seconds(self, device: str, job: Job) -> float:
        raise LookupError(f"{device} is in no radio cell")

    def heard(self, update: Update) -> None:
        """Nobody asks."""


def _seconds(link: Direction, size: int) -> float:
    """A transfer without noise; over a link that follows a trace, its delay only."""
    return link.delay + (8 * size / (link.mbit * 1e6) if link.mbit is not None else 0.0)
