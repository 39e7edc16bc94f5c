"""Paces: when to aggregate. A strategy inherits its pace from here and defines only its aggregation rule.

A strategy must never wait for more updates than can still arrive, or the run stalls. So the event handlers only record,
one private method ``_…_if_due`` decides, and *every* handler calls it.
"""

from aggregator.pacing.collecting import idle_devices, normalised, weighed, weighted_sum
from aggregator.pacing.every_k import Buffered, EveryK, KMixed
from aggregator.pacing.every_round import EveryRound
from aggregator.pacing.every_tick import EveryTick
from aggregator.pacing.every_update import EveryUpdate
from aggregator.pacing.idle_pools import sample
from aggregator.pacing.k_trimmed import KTrimmed
from aggregator.pacing.participants import FractionInFlight, fraction_of
from aggregator.pacing.server_optimiser import OPTIMIZERS, ServerOptimiser
from aggregator.pacing.spread import DelaySpread, Executions

__all__ = [
    "OPTIMIZERS",
    "Buffered",
    "DelaySpread",
    "EveryK",
    "EveryRound",
    "EveryTick",
    "EveryUpdate",
    "Executions",
    "FractionInFlight",
    "KMixed",
    "KTrimmed",
    "ServerOptimiser",
    "fraction_of",
    "idle_devices",
    "normalised",
    "sample",
    "weighed",
    "weighted_sum",
]
