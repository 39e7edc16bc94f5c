"""Every strategy against its printed equations: random histories of a real engine, recomputed in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from tests.aggregator.reference import equations as eq
from tests.aggregator.reference.observed import F64, Log, Reference, replayed
from tests.properties import examples

Row = tuple[Callable[[], Strategy], Callable[[F64], Reference]]

PLAIN = {"alpha": 0.6, "damping": "constant", "a": 0.5, "b": 4.0}
ED = {"lam": 1.0, "eps": 1.0, "gamma_bar": 3.0, "kappa": 1.0, "k_max": 100, "steps": 5}
WK = {"clip": 100.0, "theta": 0.0, "beta": 2.0, "c": 0.1, "lr": 0.2}


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
    "safl": row("safl", eq.BufferReference, {"weight": mean}, k=2),
    "safl-sc": row("safl-sc", eq.BufferReference, {"weight": mean}, k=2, tau_0=1),
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
    "asafl, fixed": row("asafl", eq.ASAFLReference, {"light": False}, control="fixed", degree=2),
}


@pytest.mark.parametrize("name", ROWS)
@examples(100)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_version_is_that_of_the_printed_equations(name: str, seed: int) -> None:
    make, reference = ROWS[name]
    log = Log(make(), seed)
    assert replayed(log, reference(log.first)) == log.fleet.engine.version


def test_every_strategy_has_a_reference() -> None:
    assert {type(make()) for make, _ in ROWS.values()} == set(STRATEGIES.values())
