"""The contract of every strategy. A new strategy is one row of ``CONTRACT_ROWS``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from aggregator.engine.engine import Engine
from aggregator.pacing import EveryK, EveryRound, EveryTick, EveryUpdate
from aggregator.strategies import STRATEGIES
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
from aggregator.strategy import Server, Strategy
from testbed.history import trace
from testbed.wire.messages import Update
from tests.aggregator.imaginary import Fleet, ImaginaryDevice
from tests.aggregator.strategies.by_hand import check_memory, vector


@dataclass(kw_only=True)
class MeanOfK(EveryK):
    """The smallest strategy on EveryK."""

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        return [1 / len(updates)] * len(updates)


@dataclass(kw_only=True)
class MeanOfTick(EveryTick):
    """The smallest strategy on EveryTick."""

    def weights(self, updates: Sequence[Update], server: Server) -> Sequence[float]:
        return [1 / len(updates) for _ in updates]  # also called for an empty tick


@dataclass(kw_only=True)
class MeanOfRound(EveryRound):
    """The smallest strategy on EveryRound."""

    def share(self, update: Update, server: Server) -> float:
        return 1.0


CONTRACT_ROWS: dict[str, Callable[[], Strategy]] = {
    "fedavg": FedAvg,
    "fedavg, half of the devices": lambda: FedAvg(fraction=0.5),
    "fedavg, deadline": lambda: FedAvg(deadline=1.5),
    "fedavg, half of the devices, deadline": lambda: FedAvg(fraction=0.5, deadline=1.5),
    "fedavg, momentum": lambda: FedAvg(optimizer="momentum", eta=0.5, beta1=0.5),
    "fedopt, adam": lambda: FedOpt(eta=0.5),
    "fedopt, yogi": lambda: FedOpt(optimizer="yogi", eta=0.5, beta1=0.5),
    "fedopt, adagrad": lambda: FedOpt(optimizer="adagrad", eta=2.0),
    "fedasync, constant": lambda: FedAsync(damping="constant"),
    "fedasync, polynomial": lambda: FedAsync(damping="polynomial"),
    "fedasync, hinge": lambda: FedAsync(damping="hinge", b=1.0),
    "fedasync, hinge in seconds": lambda: FedAsync(damping="hinge", b=1.0, tau_unit="seconds", rho=0.1),
    "asyncfeded": AsyncFedED,
    "asyncfeded, bounded": lambda: AsyncFedED(gamma_max=2.0),
    "ace": ACE,
    "aced": ACED,
    "aced, only the latest": lambda: ACED(tau_algo=0),
    "afl, half in flight": AFL,
    "afl, all in flight": lambda: AFL(fraction=1.0, alpha=0.0),
    "afl, one in flight": lambda: AFL(fraction=0.1),
    "afl, bounded": lambda: AFL(fraction=1.0, tau_max=3),
    "asafl": lambda: ASAFL(rounds=60, budget=60.0),
    "asafl, λ slow": lambda: ASAFL(rounds=60, budget=60.0, weighting="slow"),
    "asafl, λ steep": lambda: ASAFL(rounds=60, budget=60.0, weighting="steep"),
    "asafl, λ linear": lambda: ASAFL(rounds=60, budget=60.0, weighting="linear"),
    "asafl, two of them": lambda: ASAFL(control="fixed", degree=2),
    "asafl, ascending": lambda: ASAFL(control="ascending", rounds=60),
    "asafl, descending": lambda: ASAFL(control="descending", rounds=60),
    "asafl, greedy": lambda: ASAFL(control="greedy", rounds=60, budget=60.0),
    "asafl, myopic": lambda: ASAFL(control="myopic", rounds=60, budget=60.0),
    "asafl, equal shares": lambda: ASAFL(rounds=60, budget=60.0, allocation="equal"),
    "asafl, eba": lambda: ASAFL(rounds=60, budget=60.0, allocation="eba"),
    "asafl, synchronous": lambda: ASAFL(control="synchronous", degree=2),
    "asafl, light, synchronous": lambda: ASAFL(control="synchronous", degree=2, memory="light"),
    "synchronous in a cell": lambda: ASAFL(control="synchronous", degree=3, calibrated=False),
    "asafl, by heartbeats": lambda: ASAFL(rounds=60, budget=60.0, estimate="beats"),
    "asafl, light": lambda: ASAFL(rounds=60, budget=60.0, memory="light"),
    "asafl, light, two of them": lambda: ASAFL(control="fixed", degree=2, memory="light"),
    "asafl, little patience": lambda: ASAFL(control="fixed", degree=2, tau_0=1),
    "asafl, light, little patience": lambda: ASAFL(control="fixed", degree=2, memory="light", tau_0=1),
    "safl in a cell": lambda: ASAFL(control="fixed", degree=2, calibrated=False),
    "safl-sc in a cell": lambda: ASAFL(control="fixed", degree=2, calibrated=False, tau_0=1),
    "sync-fl": SyncFL,
    "sync-fl, half of the devices": lambda: SyncFL(fraction=0.5),
    "fedprox": lambda: FedProx(mu=0.5),
    "fedat": lambda: FedAT(tiers=2),
    "fedat, a tier for each device": lambda: FedAT(tiers=9, mu=0.0),
    "fedat, one device of each tier": lambda: FedAT(tiers=2, fraction=0.5),
    "fedat, one tier": lambda: FedAT(tiers=1),
    "fedbuff": lambda: FedBuff(k=3),
    "fedbuff, momentum": lambda: FedBuff(k=3, optimizer="momentum"),
    "fedbuff, adam": lambda: FedBuff(k=3, optimizer="adam", eta=0.3),
    "ca2fl": lambda: CA2FL(k=3),
    "fadas": lambda: FADAS(k=3, eta=0.3),
    "fadas, scaled": lambda: FADAS(k=2, eta=0.5, tau_c=1, slower="scaled"),
    "audg": lambda: AUDG(interval=0.5),
    "audg, equal": lambda: AUDG(interval=1.5, weighting="equal"),
    "audg, normalised": lambda: AUDG(interval=0.5, normalised=True),
    "psurdg": lambda: PSURDG(interval=1.5),
    "psurdg, equal": lambda: PSURDG(interval=2.5, weighting="equal"),
    "psurdg, normalised": lambda: PSURDG(interval=1.5, normalised=True),
    "fedcompass": FedCompass,
    "fedcompass, few steps": lambda: FedCompass(q_min=1, q_max=6, mu=0.5),
    "fedcompass, no latency": lambda: FedCompass(q_min=5, q_max=10, lam=1.0),
    "median": lambda: Median(k=3),
    "median, an even number": lambda: Median(k=4),
    "trimmed-mean": lambda: TrimmedMean(k=4),
    "trimmed-mean, nothing removed": lambda: TrimmedMean(k=3, beta=0.0),
    "krum": lambda: Krum(k=3),
    "krum, the mean of two": lambda: Krum(k=4, m=2),
    "safl": lambda: SAFL(k=3),
    "safl-sc": lambda: SAFLSC(k=2, tau_0=1),
    "safl-sc, no patience": lambda: SAFLSC(k=2, tau_0=0),
    "safl-weighted": lambda: SAFLWeighted(k=2),
    "twafl": lambda: TWAFL(k=2),
    "wkafl": lambda: WKAFL(k=3),
    "wkafl, strict": lambda: WKAFL(k=3, theta=0.9, clip=5.0),
    "gsgm": GSGM,
    "gsgm, no momentum": lambda: GSGM(s=1, beta=0.0),
    "eafl": lambda: EAFL(clusters=4, every=3),
    "eafl, devices train for every clustering": lambda: EAFL(clusters=4, every=3, fresh=True),
    "eafl, fewer clusters than devices": lambda: EAFL(clusters=2, every=5, phi=0.5, patience=3.0),
    "eafl, clustered once, heads asynchronous": lambda: EAFL(clusters=3, gdc=False, dsa=False),
    "eafl, little patience": lambda: EAFL(clusters=2, every=2, patience=1.2, dsa=False),
    "every k": lambda: MeanOfK(k=3),
    "every tick": lambda: MeanOfTick(interval=0.5),
    "every round": MeanOfRound,
    "every round, half of the devices, deadline": lambda: MeanOfRound(fraction=0.5, deadline=1.5),
    "every update": EveryUpdate,
    "fedasync, two in flight, uniform": lambda: FedAsync(in_flight=2, sampling="uniform"),
    "fedasync, two in flight, in turn": lambda: FedAsync(in_flight=2, sampling="round-robin"),
    "fedasync, one in flight, by samples": lambda: FedAsync(in_flight=1, sampling="by_samples"),
    "afl, three in flight, in turn": lambda: AFL(in_flight=3, sampling="round-robin"),
    "safl, two in flight, uniform": lambda: SAFL(k=2, in_flight=2, sampling="uniform"),
    "safl, three in flight, in turn": lambda: SAFL(k=2, in_flight=3, sampling="round-robin"),
    "safl-sc, two in flight, by samples": lambda: SAFLSC(k=2, tau_0=0, in_flight=2, sampling="by_samples"),
    "fedbuff, two in flight, uniform": lambda: FedBuff(k=3, in_flight=2),
    "audg, two in flight, uniform": lambda: AUDG(interval=0.5, in_flight=2, sampling="uniform"),
    "audg, three in flight, in turn": lambda: AUDG(interval=0.5, in_flight=3, sampling="round-robin"),
    "psurdg, two in flight, by samples": lambda: PSURDG(interval=1.5, in_flight=2, sampling="by_samples"),
    "fedavg, two in flight, uniform": lambda: FedAvg(in_flight=2, sampling="uniform"),
    "fedavg, one in flight, in turn": lambda: FedAvg(in_flight=1, sampling="round-robin"),
    "fedavg, two in flight, by samples, deadline": lambda: FedAvg(in_flight=2, sampling="by_samples", deadline=1.5),
    "every k, half of the devices": lambda: MeanOfK(k=2, in_flight=0.5),
}
every_strategy = pytest.mark.parametrize("make", CONTRACT_ROWS.values(), ids=CONTRACT_ROWS.keys())

PACES = (
    "fedavg",
    "fedavg, half of the devices, deadline",
    "fedprox",
    "sync-fl, half of the devices",
    "every round",
    "every k",
    "safl-sc",
    "every tick",
    "psurdg",
    "every update",
    "afl, half in flight",
    "gsgm",
    "asafl, two of them",
    "asafl, synchronous",
)
"""Rows with different paces."""

FALLS_TO = 0.2
"""The optima lie within 1.5 of their mean, the mean 12 from the start. Asynchronous strategies end among the optima,
biased towards fast devices; one that shrinks the model or applies a delta to the wrong base does not come near."""

DEVICES = (
    ImaginaryDevice(name="fast", optimum=vector(5, 8, 7), samples=10, seconds_per_step=0.05),
    ImaginaryDevice(name="far", optimum=vector(7, 8, 8), samples=30, seconds_per_step=0.1, down=0.5, up=0.7),
    ImaginaryDevice(name="slow", optimum=vector(6, 7, 7), samples=20, seconds_per_step=0.4),
    ImaginaryDevice(name="plain", optimum=vector(6, 8, 6), samples=40, seconds_per_step=0.15),
)


def fleet_of(make: Callable[[], Strategy], seed: int = 0, **traits: object) -> Fleet:
    """The four devices, all with these traits."""
    return Fleet(make(), [replace(device, **traits) for device in DEVICES], seed=seed)  # type: ignore[arg-type]


def troubled(make: Callable[[], Strategy]) -> Fleet:
    """A quarter of the downloads and a seventh of the uploads fail for 30 s; devices die, restart and fall silent."""
    fleet = fleet_of(make, lost_downloads=range(2, 60, 4), given_up=range(3, 60, 7))
    fleet.at(2.0, fleet.kill, "plain")
    fleet.at(3.3, fleet.silence, "far")
    fleet.at(4.7, fleet.restart, "plain")
    fleet.at(5.1, fleet.restart, "fast")
    for second, name in enumerate(fleet.devices):
        fleet.at(8.0 + second / 4, fleet.kill, name)
        fleet.at(12.0 + second, fleet.restart, name)
    fleet.at(20.0, fleet.silence, "slow")
    return fleet


def test_every_strategy_of_the_catalogue_has_a_row() -> None:
    assert {type(make()) for make in CONTRACT_ROWS.values()} >= set(STRATEGIES.values())


def test_every_strategy_of_the_catalogue_has_a_golden_test() -> None:
    files = {path.stem.removeprefix("test_golden_") for path in Path(__file__).parent.glob("*/test_golden_*.py")}
    modules = {strategy.__module__.rpartition(".")[2] for strategy in STRATEGIES.values()}
    assert modules <= files


@every_strategy
def test_it_learns_what_the_devices_have_in_common(make: Callable[[], Strategy]) -> None:
    fleet = fleet_of(make)
    before = fleet.distance()
    fleet.run(until=60.0)
    assert fleet.distance() < FALLS_TO * before


@every_strategy
def test_it_makes_the_same_decisions_for_the_same_events(make: Callable[[], Strategy]) -> None:
    first, second = troubled(make), troubled(make)
    first.run(until=30.0)
    second.run(until=30.0)
    assert first.trace == second.trace
    np.testing.assert_array_equal(first.engine.model, second.engine.model)


@every_strategy
def test_it_survives_lost_messages_and_devices_that_leave_and_return(make: Callable[[], Strategy]) -> None:
    fleet = troubled(make)
    before = fleet.distance()
    fleet.run(until=30.0)
    tally, version = fleet.engine.tally, fleet.engine.version
    assert any(isinstance(event, trace.Resent) for event in fleet.trace)
    assert any(isinstance(event, trace.Lost) and "given up" in event.reason for event in fleet.trace)
    assert tally.lost >= len(DEVICES)
    fleet.run(until=60.0)
    assert fleet.engine.version >= version + 5
    assert fleet.distance() < FALLS_TO * before


@pytest.mark.parametrize("on_drop", ["retry", "next_tick", "give_up"])
@pytest.mark.parametrize("on_lost_download", ["wait", "old_base"])
@pytest.mark.parametrize("pace", PACES)
def test_it_survives_lost_transfers_whatever_devices_do_then(pace: str, on_lost_download: str, on_drop: str) -> None:
    """(A profile with old_base and give_up is refused: a device then has a newer model than the aggregator knows.)"""
    keeps = on_lost_download == "old_base"
    lost = {"lost_downloads": range(2, 60, 3), "lost_uploads": range(3, 60, 4)}
    fleet = fleet_of(CONTRACT_ROWS[pace], keeps_base=keeps, on_drop=on_drop, **lost)
    for second, name in enumerate(fleet.devices):
        fleet.at(6.0 + 2 * second, fleet.kill, name)
        fleet.at(7.0 + 2 * second, fleet.restart, name)
    before = fleet.distance()
    fleet.run(until=30.0, check=check_memory)
    old = [event for event in fleet.trace if isinstance(event, trace.Arrived) and event.version < sent(fleet, event)]
    assert bool(old) == keeps
    version = fleet.engine.version
    fleet.run(until=60.0, check=check_memory)
    assert fleet.engine.version >= version + 5
    assert fleet.distance() < FALLS_TO * before


def sent(fleet: Fleet, arrived: trace.Arrived) -> int:
    """Return the version that was sent with the ticket of this update."""
    return next(
        event.version for event in fleet.trace if isinstance(event, trace.Dispatched) and event.ticket == arrived.ticket
    )


@every_strategy
def test_it_starts_even_if_devices_join_later(make: Callable[[], Strategy]) -> None:
    fleet = fleet_of(make)
    for name in fleet.devices:
        fleet.kill(name)
        fleet.at(5.0, fleet.restart, name)
    before = fleet.distance()
    fleet.run(until=60.0)
    assert fleet.distance() < FALLS_TO * before


@every_strategy
def test_it_never_sees_an_old_ticket(make: Callable[[], Strategy]) -> None:
    once, twice = fleet_of(make), fleet_of(make, repeats=True)
    once.run(until=20.0)
    twice.run(until=20.0)
    ignored = [event for event in twice.trace if isinstance(event, trace.Ignored)]
    arrived = [event for event in twice.trace if isinstance(event, trace.Arrived)]
    assert len(ignored) >= len(arrived) > 0
    surplus = (trace.Ignored,)
    assert [e for e in twice.trace if not isinstance(e, surplus)] == [
        e for e in once.trace if not isinstance(e, surplus)
    ]
    np.testing.assert_array_equal(once.engine.model, twice.engine.model)


@every_strategy
def test_it_keeps_no_model_that_no_device_needs(make: Callable[[], Strategy]) -> None:
    fleet = troubled(make)
    fleet.run(until=120.0, check=check_memory)
    assert fleet.engine.version > 3 * len(DEVICES)  # else the bound would prove little


@every_strategy
def test_it_leaves_no_ticket_open_forever(make: Callable[[], Strategy]) -> None:
    """A gathered update is used or rejected; a strategy that forgets one would keep its base model forever."""
    fleet = fleet_of(make)
    most = 2 * len(DEVICES)  # one at the device, one at the strategy

    def check(engine: Engine) -> None:
        assert engine.in_flight <= most

    fleet.run(until=120.0, check=check)
