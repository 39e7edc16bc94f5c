"""When to aggregate. A rule inherits its pace from here and says only what happens then.

Liveness is the contract that breaks: a rule must never wait for more than can still come. So handlers only record,
one private ``_…_if_due`` decides, and *every* event calls it.
"""

from aggregator.pacing.every_few import EveryK, EveryTick, KMixed, idle_devices, normalised
from aggregator.pacing.every_round import EveryRound
from aggregator.pacing.every_update import EveryUpdate
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
    "fraction_of",
    "idle_devices",
    "normalised",
    "sample",
]
