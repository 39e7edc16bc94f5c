"""The cost of an engine's event in a large population: 10 devices are in flight, of 100 or of 10,000 devices.

A real engine with a real strategy and a model of 10 numbers; the device that was started first delivers next. Measured
is the CPU time of ``Engine.update`` and of the wakes that are due. An idle device should cost nothing, so the ratio
should be near 1; a draw takes O(log n) steps, and 10,000 devices do not fit into the cache. Takes 20 s.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from aggregator.engine.engine import Engine
from aggregator.strategies import STRATEGIES
from aggregator.strategy import DeviceInfo
from testbed.wire.messages import Train, Update
from testbed.wire.training_job import Job
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most, median

_SMALL, _LARGE = 100, 10_000
_IN_FLIGHT = 10
_EVENTS = 1000
TURNS = 5
_TARGET = 3.0
PACES: dict[str, dict[str, Any]] = {"fedasync": {}, "fedbuff": {"k": 10}, "audg": {"interval": 1.0}, "fedavg": {}}
"""A strategy of each pace."""
SAMPLINGS = ("uniform", "round-robin", "by_samples")


def measure(options: Options) -> Iterator[Figure]:
    for name, parameters in PACES.items():
        for sampling in SAMPLINGS:
            given = {**parameters, "in_flight": _IN_FLIGHT, "sampling": sampling}
            small, large = [], []
            for _ in range(options.repeats(TURNS)):  # alternately: other load on the host then affects both
                small.append(_seconds_per_event(name, given, _SMALL))
                large.append(_seconds_per_event(name, given, _LARGE))
            row = f"{name}, {sampling}"
            yield median(row, f"{_SMALL:,} devices", [1e6 * each for each in small], unit="µs")
            yield median(row, f"{_LARGE:,} devices", [1e6 * each for each in large], unit="µs")
            ratio = statistics.median(large) / statistics.median(small)
            yield Figure(row=row, column="ratio", value=ratio, aim=at_most(_TARGET))


def _seconds_per_event(name: str, parameters: dict[str, Any], devices: int) -> float:
    """Mean seconds of an event: one in ten makes a version and draws ten devices. The first half is a warm-up."""
    sent: dict[str, Any] = {}
    engine = Engine(
        STRATEGIES[name](**parameters),
        np.zeros(10, np.float32),
        job=Job(),
        random=np.random.default_rng(0),
        send=sent.__setitem__,
        record=lambda event: None,
    )
    for number in range(devices):
        engine.join(DeviceInfo(name=f"d{number}", samples=10 + number % 7), 0.0)
    engine.start(0.0)
    times = []
    for _ in range(_EVENTS):
        device = next(iter(sent))
        update = _update(device, sent.pop(device))
        began = time.thread_time()
        engine.update(update, engine.now)
        if not engine.busy and engine.wake_at is not None:
            engine.wake(engine.wake_at)
        times.append(time.thread_time() - began)
    return statistics.mean(times[_EVENTS // 2 :])


def _update(device: str, train: Train) -> Update:
    return Update(
        device=device,
        ticket=train.ticket,
        version=train.version,
        delta=np.full(10, 1e-3, np.float32),
        samples=10,
        steps=1,
        started=0.0,
        finished=1.0,
        due=0.0,
        loss=0.0,
    )
