"""Paces: when to aggregate. A strategy inherits its pace from here and defines only its aggregation rule.

A strategy must never wait for more updates than can still arrive, or the run stalls. So the event handlers only record,
one private method ``_…_if_due`` decides, and *every* handler calls it.
"""

from aggregator.pacing.every_few import EveryK, EveryTick, KMixed, idle_devices, normalised
from aggregator.pacing.every_round import EveryRound
from aggregator.pacing.every_update import EveryUpdate
from aggregator.pacing.k_trimmed import KTrimmed
from aggregator.pacing.sampling import fraction_of, sample
from aggregator.pacing.spread import DelaySpread, Executions

__all__ = [
    "DelaySpread",
    "EveryK",
    "EveryRound",
    "EveryTick",
    "EveryUpdate",
    "Executions",
    "KMixed",
    "KTrimmed",
    "fraction_of",
    "idle_devices",
    "normalised",
    "sample",
]
