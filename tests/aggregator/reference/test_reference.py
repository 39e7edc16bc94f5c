"""Every strategy against its printed equations: random histories of a real engine, recomputed in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies import STRATEGIES
from aggregator.strategies.eafl.eafl import EAFL
from aggregator.strategy import Merged, Strategy
from testbed.wire.messages import Update, Vector
from tests.aggregator.imaginary import ImaginaryDevice
from tests.aggregator.imaginary_clusters import ClusteredFleet, Place
from tests.aggregator.reference import equations as eq
from tests.aggregator.reference import newer_equations as newer
from tests.aggregator.reference.observed import EXACT, F64, Log, Reference, replayed
from tests.properties import examples

Row = tuple[Callable[[], Strategy], Callable[[F64], Reference]]

PLAIN = {"alpha": 0.6, "damping": "constant", "a": 0.5, "b": 4.0}
ED = {"lam": 1.0, "eps": 1.0, "gamma_bar": 3.0, "kappa": 1.0, "k_max": 100, "steps": 5}
WK = {"alpha": 0.1, "clip": 100.0, "theta": 0.3, "beta": 10.0, "c": 0.1, "lr": 0.2}
ADAM = {"eta": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3}
AMS = {"eta": 0.2, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "tau_c": 1}


def row(name: str, reference: type[Reference], known: dict[str, object] | None = None, **parameters: object) -> Row:
    """A strategy with these parameters, and its reference with them and what else it must know."""
    cls = STRATEGIES[name]
    return (lambda: cls(**parameters)), (lambda model: reference(model, **{**(known or {}), **parameters}))


def mean(tau: int, count: int) -> float:
    return 1 / count


def damped(tau: int, count: int) -> float:
    return 1 / count / math.sqrt(1 + tau)


CELL = {"rounds": 60, "budget": 60.0}
ROWS: dict[str, Row] = {
    "fedavg": row("fedavg", eq.RoundBySamples),
    "fedavg, half": row("fedavg", eq.RoundBySamples, fraction=0.5),
    "fedavg, deadline": row("fedavg", eq.RoundBySamples, deadline=1.0),
    "fedprox": row("fedprox", eq.RoundBySamples, mu=0.5),
    "sync-fl": row("sync-fl", eq.RoundBySamples, {"weighting": "equal"}),
    "fedasync, constant": row("fedasync", eq.FedAsyncReference, PLAIN, damping="constant"),
    "fedasync, polynomial": row("fedasync", eq.FedAsyncReference, PLAIN, damping="polynomial"),
    "fedasync, hinge": row("fedasync", eq.FedAsyncReference, PLAIN, damping="hinge", b=1.0),
    "asyncfeded": row("asyncfeded", eq.AsyncFedEDReference, ED),
    "afl": row("afl", eq.AFLReference),
    "fedbuff": row("fedbuff", eq.BufferReference, {"weight": damped}, k=3),
    "safl": row("safl", eq.SAFLReference, {"weight": mean}, k=2),
    "safl-sc": row("safl-sc", eq.SAFLReference, {"weight": mean}, k=2, tau_0=1),
    "safl-weighted": row("safl-weighted", eq.MixedReference, {"alpha": 0.6, "s": lambda tau: 1 / (tau + 1)}, k=2),
    "twafl": row("twafl", eq.MixedReference, {"alpha": 0.6, "s": lambda tau: (math.e / 2) ** -tau}, k=2),
    "wkafl": row("wkafl", eq.WKAFLReference, WK, k=3),
    "wkafl, strict": row("wkafl", eq.WKAFLReference, WK, k=3, theta=0.9, clip=5.0),
    "gsgm": row("gsgm", eq.GSGMReference, {"s": 3, "beta": 0.5}),
    "audg": row("audg", eq.AUDGReference, interval=0.5),
    "audg, equal": row("audg", eq.AUDGReference, interval=0.7, weighting="equal"),
    "psurdg": row("psurdg", eq.PSURDGReference, interval=1.5),
    "asafl": row("asafl", eq.ASAFLReference, {"light": False}, **CELL),
    "asafl, light": row("asafl", eq.ASAFLReference, {"light": True}, memory="light", **CELL),
    "audg, normalised": row("audg", eq.AUDGReference, interval=0.5, normalised=True),
    "psurdg, normalised": row("psurdg", eq.PSURDGReference, interval=1.5, normalised=True),
    "fedbuff, in flight": row("fedbuff", eq.BufferReference, {"weight": damped}, k=3, in_flight=1),
    "fedopt, adam": row("fedopt", newer.ServerOptimiserReference, ADAM | {"optimizer": "adam"}, eta=0.1),
    "fedopt, yogi": row("fedopt", newer.ServerOptimiserReference, ADAM, optimizer="yogi", eta=0.1),
    "fedopt, adagrad": row("fedopt", newer.ServerOptimiserReference, ADAM, optimizer="adagrad", eta=0.5),
    "fedavg, momentum": row("fedavg", newer.ServerOptimiserReference, ADAM, optimizer="momentum", eta=0.5),
    "fedbuff, momentum": row("fedbuff", newer.OptimisedBufferReference, ADAM, k=3, optimizer="momentum", eta=0.1),
    "fedbuff, adam": row("fedbuff", newer.OptimisedBufferReference, ADAM, k=3, optimizer="adam", eta=0.1),
    "fedbuff, yogi": row("fedbuff", newer.OptimisedBufferReference, ADAM, k=2, optimizer="yogi", eta=0.1),
    "fadas": row("fadas", newer.FADASReference, AMS, k=3, eta=0.2),
    "fadas, scaled": row("fadas", newer.FADASReference, AMS, k=3, eta=0.2, slower="scaled"),
    "ca2fl": row("ca2fl", newer.CA2FLReference, k=3),
    "ace": row("ace", newer.ACEDReference),
    "aced": row("aced", newer.ACEDReference, tau_algo=3),
    "median": row("median", newer.TrimmedReference, k=3),
    "median, an even number": row("median", newer.TrimmedReference, k=4),
    "trimmed-mean": row("trimmed-mean", newer.TrimmedReference, k=4, beta=0.25),
    "krum": row("krum", newer.KrumReference, {"f": 0, "m": 1}, k=3),
    "krum, the mean of two": row("krum", newer.KrumReference, {"f": 0}, k=4, m=2),
    "fedat": row("fedat", newer.FedATReference, tiers=2),
    "fedcompass": row("fedcompass", newer.FedCompassReference, {"alpha": 0.9, "a": 0.5}, q_max=8),
    "asafl, fixed": row("asafl", eq.ASAFLReference, {"light": False}, control="fixed", degree=2),
}


@pytest.mark.parametrize("name", ROWS)
@examples(100)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_version_is_that_of_the_printed_equations(name: str, seed: int) -> None:
    make, reference = ROWS[name]
    log = Log(make(), seed)
    assert replayed(log, reference(log.first)) == log.fleet.engine.version


class ObservedClusters(ClusteredFleet):
    """Keeps the updates of members, and compares each result of a head with the equation."""

    results = 0

    def __init__(self, strategy: Strategy, devices: Sequence[ImaginaryDevice], *, seed: int) -> None:
        self.updates: dict[int, Update] = {}
        super().__init__(strategy, devices, seed=seed)

    def _end_upload(self, device: ImaginaryDevice, update: Update, seconds: float, given_up: bool) -> None:
        self.updates[update.ticket] = update
        super()._end_upload(device, update, seconds, given_up)

    def _pass_up(self, device: ImaginaryDevice, place: Place, delta: Vector, merged: Merged) -> None:
        used = [(self.updates[ticket], staleness) for ticket, _, staleness in merged]
        expected = eq.saa([(each.delta.astype(float), each.samples, tau) for each, tau in used])
        np.testing.assert_allclose(delta, expected, rtol=EXACT, atol=EXACT)
        self.results += 1
        super()._pass_up(device, place, delta, merged)


@pytest.mark.parametrize("fresh", [False, True])
@examples(60)
@given(seed=st.integers(0, 2**32 - 1))
def test_both_stages_of_eafl_are_those_of_the_printed_equations(fresh: bool, seed: int) -> None:
    log = Log(EAFL(clusters=2, every=3, phi=0.6, patience=3.0, fresh=fresh), seed, ObservedClusters)
    assert replayed(log, eq.EAFLReference(log.first)) == log.fleet.engine.version
    assert log.fleet.results >= log.fleet.engine.version  # type: ignore[attr-defined]


def test_every_strategy_has_a_reference() -> None:
    assert {type(make()) for make, _ in ROWS.values()} | {EAFL} == set(STRATEGIES.values())
