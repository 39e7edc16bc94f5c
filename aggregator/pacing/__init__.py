"""Paces: when to aggregate. A strategy inherits its pace from here and defines only its aggregation rule.

A strategy must never wait for more updates than can still arrive, or the run stalls. So the event handlers only record,
one private method ``_…_if_due`` decides, and *every* handler calls it.
"""

from aggregator.pacing.collecting import idle_devices, normalised
from aggregator.pacing.every_k import EveryK, KMixed
from aggregator.pacing.every_round import EveryRound
from aggregator.pacing.every_tick import EveryTick
from aggregator.pacing.every_update import EveryUpdate
from aggregator.pacing.participants import FractionInFlight
from aggregator.pacing.spread import DelaySpread, Executions

__all__ = [
    "DelaySpread",
    "EveryK",
    "EveryRound",
    "EveryTick",
    "EveryUpdate",
    "Executions",
    "FractionInFlight",
    "KMixed",
    "idle_devices",
    "normalised",
]
