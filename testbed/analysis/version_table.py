"""The versions of a run: a row for each, and the staleness of the updates in them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from testbed.common.files.spool import RowSpool, Spool
from testbed.history import trace
from testbed.runs.results.table_rows import VersionRow

MOST_MOMENTS = 1000


class VersionTotals(msgspec.Struct, kw_only=True, gc=False):
    """One version, and the updates in it."""

    t: float
    version: int
    updates: int
    """K_t."""
    staleness: list[int]
    """One entry for each update that is in a version for the first time."""
    weight: float
    plan: trace.Planned | None = None
    """The plan of the round that this version ends, if the strategy plans rounds."""


class VersionTable:
    """Takes the versions in order. Only the last one is kept as it is: updates may be merged into it."""

    def __init__(self) -> None:
        self.rows = RowSpool(VersionRow)
        self.moments: list[float] = []
        """When each version was made; not more than ``MOST_MOMENTS``."""
        self.staleness = Spool(2)
        """For each update in a version: when that was made, and the update's staleness."""
        self.staleness_sum = 0
        self.most_stale: int | None = None
        self.last: VersionTotals | None = None
        self._before = 0.0

    def add(self, made: VersionTotals) -> None:
        self.close()
        self.last = made

    def close(self) -> None:
        """Finish the last version: nothing will be merged into it."""
        made, self.last = self.last, None
        if made is None:
            return
        self.rows.add(_row(made, made.t - self._before))
        if len(self.moments) < MOST_MOMENTS:
            self.moments.append(made.t)
        self._before = made.t
        if made.staleness:
            for staleness in made.staleness:
                self.staleness.add(made.t, staleness)
            self.staleness_sum += sum(made.staleness)
            most = max(made.staleness)
            self.most_stale = most if self.most_stale is None else max(most, self.most_stale)

    @property
    def mean_staleness(self) -> float | None:
        return self.staleness_sum / len(self.staleness) if self.staleness else None


def _row(made: VersionTotals, seconds: float) -> VersionRow:
    """The row of a version that was made ``seconds`` after the previous one."""
    plan, staleness = made.plan, mean(made.staleness)
    return VersionRow(
        version=made.version,
        time_s=round(made.t, 4),
        latency_s=round(seconds, 4),
        updates=made.updates,
        new_updates=len(made.staleness),
        weight=round(made.weight, 6),
        mean_staleness=None if staleness is None else round(staleness, 3),
        max_staleness=max(made.staleness, default=None),
        planned_s=None if plan is None else round(plan.seconds, 4),
        queue_s=None if plan is None else round(plan.queue, 4),
        time_usage=None if plan is None else round((plan.spent + seconds) / plan.budget, 6),
    )


def mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
