"""The strategies. One small file each, to be read beside its paper."""

from aggregator.strategies.afl import AFL
from aggregator.strategies.asafl.asafl import ASAFL
from aggregator.strategies.asyncfeded import AsyncFedED
from aggregator.strategies.audg import AUDG
from aggregator.strategies.eafl.eafl import EAFL
from aggregator.strategies.fedasync import FedAsync
from aggregator.strategies.fedavg import FedAvg
from aggregator.strategies.fedbuff import FedBuff
from aggregator.strategies.fedprox import FedProx
from aggregator.strategies.gsgm import GSGM
from aggregator.strategies.psurdg import PSURDG
from aggregator.strategies.safl import SAFL
from aggregator.strategies.safl_sc import SAFLSC
from aggregator.strategies.safl_weighted import SAFLWeighted
from aggregator.strategies.syncfl import SyncFL
from aggregator.strategies.twafl import TWAFL
from aggregator.strategies.wkafl import WKAFL
from aggregator.strategy import Strategy
from testbed.common.plugins import Catalogue

STRATEGIES: Catalogue[Strategy] = Catalogue(
    Strategy,
    {
        "afl": AFL,
        "asafl": ASAFL,
        "asyncfeded": AsyncFedED,
        "audg": AUDG,
        "eafl": EAFL,
        "fedasync": FedAsync,
        "fedavg": FedAvg,
        "fedbuff": FedBuff,
        "fedprox": FedProx,
        "gsgm": GSGM,
        "psurdg": PSURDG,
        "safl": SAFL,
        "safl-sc": SAFLSC,
        "safl-weighted": SAFLWeighted,
        "sync-fl": SyncFL,
        "twafl": TWAFL,
        "wkafl": WKAFL,
    },
)
"""Name in a profile → class."""
