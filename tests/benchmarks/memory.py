"""Server memory of strategies that keep vectors per device, in models: d = 9,354,378 floats, 50 devices.

Each strategy runs in a process of its own. A hundred updates arrive in random order, each with its own delta, as
received frames are. Measured is the growth of the process, in units of one model (4·d bytes). docs/strategies.md states
the limit: the models that open tickets are based on (at most one per device, plus the current one), the vectors that
the strategy keeps, and the temporary memory of one decision. Takes 40 s.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import psutil

from aggregator.strategies import STRATEGIES
from testbed.wire.messages import Vector
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most
from tests.benchmarks.strategies import PARAMETERS, Drive

_SIZE, _DEVICES, _DELIVERIES = 9_354_378, 50, 2
_KEPT = {
    "ace": _DEVICES + 2,
    "aced": _DEVICES + 2,
    "afl": _DEVICES + 2,
    "asafl": _DEVICES + 2,
    "asyncfeded": 0,
    "ca2fl": _DEVICES + 4 + 2,
    "fadas": 4 + 5,
    "fedasync": 0,
    "fedat": 2 * 3,
    "fedbuff": 4,
    "fedopt": 4,
    "krum": 4,
    "median": 4,
    "psurdg": _DEVICES + 2,
    "gsgm": 3 + 1 + _DEVICES,
}
"""Models that a strategy keeps beside the past models. fedat: model and sum of each tier; gsgm: window, sum, momentum,
and waiting results."""
_FOR_A_MOMENT = 4
"""The arriving delta, the unfinished model, a temporary, and memory that the allocator has not returned."""


def measure(options: Options) -> Iterator[Figure]:
    fork = multiprocessing.get_context("fork")
    for name, kept in _KEPT.items():
        here, there = fork.Pipe()
        process = fork.Process(target=_grow, args=(name, there))
        process.start()
        grown, history = here.recv()
        process.join()
        stated = history + kept + _FOR_A_MOMENT
        yield Figure(row=name, column="growth", value=grown, unit="models", aim=at_most(stated))
        yield Figure(row=name, column="past models", value=float(history), unit="models")


def _grow(name: str, answer: Connection) -> None:
    process = psutil.Process()
    drive = _Fresh(STRATEGIES[name](**PARAMETERS.get(name, {})), _SIZE, _DEVICES)
    before = process.memory_info().rss
    most = history = 0
    for _ in range(_DELIVERIES * _DEVICES):
        drive.deliver()
        history = max(history, drive.engine.models_kept)
        most = max(most, process.memory_info().rss)
    answer.send(((most - before) / (4 * _SIZE), history))


class _Fresh(Drive):
    """Every delta has its own memory."""

    def delta(self) -> Vector:
        return super().delta().copy()
