"""The strategies. One small file each, to be read beside its paper."""

from aggregator.strategies.asafl.asafl import ASAFL
from aggregator.strategies.eafl.eafl import EAFL
from aggregator.strategies.grouped.fedat import FedAT
from aggregator.strategies.grouped.fedcompass import FedCompass
from aggregator.strategies.per_k.ca2fl import CA2FL
from aggregator.strategies.per_k.fadas import FADAS
from aggregator.strategies.per_k.fedbuff import FedBuff
from aggregator.strategies.per_k.krum import Krum
from aggregator.strategies.per_k.median import Median
from aggregator.strategies.per_k.safl import SAFL
from aggregator.strategies.per_k.safl_sc import SAFLSC
from aggregator.strategies.per_k.safl_weighted import SAFLWeighted
from aggregator.strategies.per_k.trimmed_mean import TrimmedMean
from aggregator.strategies.per_k.twafl import TWAFL
from aggregator.strategies.per_k.wkafl import WKAFL
from aggregator.strategies.per_round.fedavg import FedAvg
from aggregator.strategies.per_round.fedopt import FedOpt
from aggregator.strategies.per_round.fedprox import FedProx
from aggregator.strategies.per_round.syncfl import SyncFL
from aggregator.strategies.per_tick.audg import AUDG
from aggregator.strategies.per_tick.psurdg import PSURDG
from aggregator.strategies.per_update.ace import ACE
from aggregator.strategies.per_update.aced import ACED
from aggregator.strategies.per_update.afl import AFL
from aggregator.strategies.per_update.asyncfeded import AsyncFedED
from aggregator.strategies.per_update.fedasync import FedAsync
from aggregator.strategies.per_update.gsgm import GSGM
from aggregator.strategy import Strategy
from testbed.common.plugins import Catalogue

STRATEGIES: Catalogue[Strategy] = Catalogue(
    Strategy,
    {
        "ace": ACE,
        "aced": ACED,
        "afl": AFL,
        "asafl": ASAFL,
        "asyncfeded": AsyncFedED,
        "audg": AUDG,
        "ca2fl": CA2FL,
        "eafl": EAFL,
        "fadas": FADAS,
        "fedasync": FedAsync,
        "fedat": FedAT,
        "fedavg": FedAvg,
        "fedbuff": FedBuff,
        "fedcompass": FedCompass,
        "fedopt": FedOpt,
        "fedprox": FedProx,
        "gsgm": GSGM,
        "krum": Krum,
        "median": Median,
        "psurdg": PSURDG,
        "safl": SAFL,
        "safl-sc": SAFLSC,
        "safl-weighted": SAFLWeighted,
        "sync-fl": SyncFL,
        "trimmed-mean": TrimmedMean,
        "twafl": TWAFL,
        "wkafl": WKAFL,
    },
)
"""Name in a profile → class."""
