"""What the deliveries of a run show about its links, added up one by one: a long run has millions of them.

The exact quantiles of delays need every value; they are kept in a ``Spool``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TypeAlias

from testbed.common.files.spool import Spool
from testbed.emulation.faults import Timetable, scripted, timetable
from testbed.fidelity.measurements import Delivery
from testbed.history import trace
from testbed.history.event_pass import Handlers
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Direction
from testbed.profile.script import drop_at

SMALL_SECONDS = 0.002
"""Lateness that is tolerated on every link, however short its delay."""
_LINK_SHARE = 0.02
_WINDOW_SECONDS = 1.0
_BATCH = 2048
"""Deliveries that are added up together, which is faster than one by one: the code of each step stays in the cache."""

Link: TypeAlias = tuple[str, bool]
"""A device, and whether it is its uplink."""


@dataclass(slots=True)
class LossCount:
    """The transfers over one link."""

    lost: int = 0
    sent: int = 0
    chances: Counter[float] = field(default_factory=Counter)
    """How many transfers had each probability of a loss."""

    @property
    def chance(self) -> float:
        return fmean(self.chances.keys(), self.chances.values())


@dataclass(slots=True)
class RateCount:
    """The windows of one link: successive transfers that should take a second together."""

    asked: float = 0.0
    obtained: float = 0.0
    """The sums of the window that is not full yet."""
    worst: float | None = None
    """The largest relative error of a window; None if none was full."""


class LinkEvidence:
    """Adds up deliveries (``note``). It is a checker, too: the header says which losses are planned."""

    def __init__(self, devices: Sequence[DeviceSpec]) -> None:
        self._specs = {device.name: device for device in devices}
        self._tables: dict[str, Timetable] = {}
        self._batch: list[Delivery] = []
        self.header: trace.Header | None = None
        self.count = 0
        self.late = Spool(2)
        """Seconds by which each delivery was late, and the same as a multiple of what is tolerated."""
        self.latest, self.worst_score, self.worst = -math.inf, -math.inf, ""
        """The largest of each, and the device with the second one."""
        self.rate_errors = Spool()
        self.rates: dict[Link, RateCount] = {}
        self.losses: dict[Link, LossCount] = defaultdict(LossCount)
        self.against_timetable = 0
        self.early = 0
        self.first_early: str | None = None

    def handlers(self) -> Handlers:
        return {trace.Header: self._begin}

    def _begin(self, header: trace.Header) -> None:
        self.header = header

    @property
    def is_replay(self) -> bool:
        return self.header is not None and bool(self.header.replay)

    def note(self, delivery: Delivery) -> None:
        self._batch.append(delivery)
        if len(self._batch) >= _BATCH:
            self.add_up()

    def add_up(self) -> None:
        """Add up the deliveries that were noted; to be called before the sums are read."""
        batch, self._batch = self._batch, []
        self.count += len(batch)
        for delivery in batch:
            self._judge_moment(delivery, self._specs[delivery.device])
        for delivery in batch:
            if delivery.arrived is not None:
                self._add_lateness(delivery)
                if _direction(self._specs[delivery.device], delivery).has_rate:
                    self._add_rate(delivery, delivery.arrived)
        if not self.is_replay:
            for delivery in batch:
                self._add_loss(delivery, self._specs[delivery.device])

    def _judge_moment(self, delivery: Delivery, spec: DeviceSpec) -> None:
        # a replay follows the recorded link, not the one in the profile
        too_fast = not self.is_replay and delivery.asked < _direction(spec, delivery).delay
        if delivery.is_early or too_fast:
            self.early += 1
            self.first_early = self.first_early or delivery.device

    def _add_lateness(self, delivery: Delivery) -> None:
        late = delivery.late
        score = late / max(SMALL_SECONDS, _LINK_SHARE * (delivery.asked - delivery.absent))
        self.late.add(late, score)
        self.latest = max(self.latest, late)
        if score > self.worst_score:
            self.worst_score, self.worst = score, delivery.device

    def _add_rate(self, delivery: Delivery, arrived: float) -> None:
        window = self.rates.setdefault((delivery.device, delivery.up), RateCount())
        window.asked = window.asked + delivery.asked - delivery.absent
        window.obtained = window.obtained + arrived - delivery.sent - delivery.absent
        if window.asked < _WINDOW_SECONDS:
            return
        if window.obtained > 0:
            error = abs(window.asked / window.obtained - 1.0)
            self.rate_errors.add(error)
            window.worst = error if window.worst is None else max(window.worst, error)
        window.asked = window.obtained = 0.0

    def _add_loss(self, delivery: Delivery, spec: DeviceSpec) -> None:
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = timetable(spec, self.header.seed if self.header is not None else 0)
        fate = (table.upload if delivery.up else table.download)(delivery.job, delivery.attempt)
        chance: float | None = None
        if spec.script:
            fate, chance = scripted(fate, spec.script, delivery.sent), drop_at(spec.script, delivery.sent)
        self.against_timetable += fate.dropped != delivery.dropped
        count = self.losses[delivery.device, delivery.up]
        count.lost += delivery.dropped
        count.sent += 1
        count.chances[_direction(spec, delivery).drop if chance is None else chance] += 1


def _direction(spec: DeviceSpec, delivery: Delivery) -> Direction:
    return spec.up if delivery.up else spec.down
