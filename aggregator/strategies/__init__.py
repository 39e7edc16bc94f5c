"""The aggregation rules. One small file each, to be read beside its paper."""

from aggregator.strategies.asyncfeded import AsyncFedED
from aggregator.strategies.fedasync import FedAsync
from aggregator.strategies.fedavg import FedAvg
from aggregator.strategy import Strategy

CATALOGUE: dict[str, type[Strategy]] = {
    "asyncfeded": AsyncFedED,
    "fedasync": FedAsync,
    "fedavg": FedAvg,
}
"""Name in a profile → class."""

BASE = Strategy
"""What a user's own rule must be."""
