"""The cost of a strategy per update, as a multiple of one ``x += a*y`` over the same vector.

A real engine with a real strategy and 16 devices that deliver in random order. Timed are all calls of the strategy from
one update to the next, ticks and wakes included. The floor is timed alternately with it, on the same number of vectors:
a single pair would stay in the cache, unlike an update that has just arrived. Takes 2 minutes.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from aggregator.engine.engine import Engine
from aggregator.strategies import STRATEGIES
from aggregator.strategy import DeviceInfo, Strategy
from testbed.host.cores import keep_freed_memory
from testbed.wire.messages import Grant, Train, Update, Vector
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import PlainForecast
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most, median

SIZES = {"87 KB": 21_840, "2.65 MB": 663_160, "37.4 MB": 9_354_378}
_DEVICES = 16
_UPDATES = 48
TURNS = 3
_TARGET = 3.0
PARAMETERS: dict[str, dict[str, Any]] = {
    **{name: {"interval": 1.0} for name in ("audg", "psurdg")},
    **{name: {"k": 4} for name in ("ca2fl", "fadas", "fedbuff", "safl", "safl-sc", "safl-weighted", "twafl", "wkafl")},
    **{name: {"k": 4} for name in ("krum", "median", "trimmed-mean")},
    "afl": {"fraction": 1.0},
    "asafl": {"control": "fixed", "degree": 4},
}
NEEDS_MORE = {
    "ace": "the device's last gradient, in double precision",
    "aced": "the device's last gradient, in double precision",
    "afl": "the device's last model, in double precision",
    "asafl": "the device's last gradient, in double precision, and Algorithm 2",
    "ca2fl": "the device's last update, in double precision",
    "fadas": "momentum, and second moments in double precision",
    "fedat": "the models of all tiers",
    "gsgm": "window and momentum",
    "krum": "every pair of K updates",
    "median": "sorts every coordinate",
    "psurdg": "the device's last gradient, in double precision",
    "safl-weighted": "K base models",
    "trimmed-mean": "sorts every coordinate",
    "twafl": "K base models",
    "wkafl": "every gradient three times",
}
"""Strategies that read more than the arriving update."""


def measure(options: Options) -> Iterator[Figure]:
    keep_freed_memory()  # as the aggregator process does
    for label, size in SIZES.items():
        for name, cls in STRATEGIES.items():
            ratios = []
            for _ in range(options.repeats(TURNS)):  # alternately: other load on the host then affects both
                floor = _floor(size)
                ratios.append(Drive(cls(**PARAMETERS.get(name, {})), size, _DEVICES).seconds_per_update() / floor)
            more = NEEDS_MORE.get(name)
            row = f"{name} ({more})" if more else name
            yield median(row, label, ratios, aim=None if more else at_most(_TARGET))


def _floor(size: int) -> float:
    """Seconds for ``x += a*y``."""
    models, deltas, a = _some(size), _some(size), np.float32(0.5)
    times = []
    for number in range(2 * _DEVICES):
        x, y = models[number % _DEVICES], deltas[number % _DEVICES]
        began = time.perf_counter()
        x += a * y
        times.append(time.perf_counter() - began)
    return statistics.median(times)


class Drive:
    """Devices without a task: they deliver deltas in random order."""

    def __init__(self, strategy: Strategy, size: int, devices: int) -> None:
        self._timed = _Granting(strategy) if strategy.grants else _Timed(strategy)
        self._sent: dict[str, Train] = {}
        self._granted: dict[str, int] = {}
        self._random, self._now = np.random.default_rng(1), 0.0
        self._deltas = itertools.cycle(_some(size))
        self.engine = Engine(
            self._timed,
            np.zeros(size, np.float32),
            job=Job(),
            random=np.random.default_rng(0),
            send=self._take,
            record=lambda event: None,
            forecast=PlainForecast(bandwidth=32.0 * size),
        )
        for number in range(devices):
            self.engine.join(DeviceInfo(name=f"d{number}", samples=10 + number), 0.0)
        self.engine.start(0.0)

    def _take(self, device: str, message: Train | Grant) -> None:
        if isinstance(message, Grant):
            self._granted[device] = message.ticket
        else:
            self._sent[device] = message

    def seconds_per_update(self) -> float:
        for _ in range(_DEVICES):
            self.deliver()  # warm-up: buffers exist, every device has delivered
        self._timed.seconds = 0.0
        for _ in range(_UPDATES):
            self.deliver()
        return self._timed.seconds / _UPDATES

    def deliver(self) -> None:
        """Deliver one update. Due wakes come first; if no device is busy, time advances to the next wake."""
        self._now += 1 / _DEVICES
        while self.engine.wake_at is not None and (self.engine.wake_at <= self._now or not self.engine.busy):
            self._now = max(self._now, self.engine.wake_at)
            self.engine.wake(self._now)
        busy = sorted(device for device in self.engine.busy if self._may_deliver(self._sent[device], device))
        device = busy[int(self._random.integers(len(busy)))]
        train = self._sent[device]
        self.engine.update(
            Update(
                device=device,
                ticket=train.ticket,
                version=train.version,
                delta=self.delta(),
                samples=10,
                steps=1,
                started=0.0,
                finished=1.0,
                due=self._now,
                loss=0.0,
            ),
            self._now,
        )

    def _may_deliver(self, train: Train, device: str) -> bool:
        return not train.grant or self._granted.get(device) == train.ticket

    def delta(self) -> Vector:
        return next(self._deltas)


class _Timed(Strategy):
    """Forwards all calls, and adds up their duration."""

    def __init__(self, inner: Strategy) -> None:
        self._inner, self.seconds = inner, 0.0

    def _timed(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        decision = ask(*arguments)
        self.seconds += time.perf_counter() - began
        return decision

    def on_start(self, server: Any) -> Any:
        return self._timed(self._inner.on_start, server)

    def on_join(self, device: str, server: Any) -> Any:
        return self._timed(self._inner.on_join, device, server)

    def on_leave(self, device: str, server: Any) -> Any:
        return self._timed(self._inner.on_leave, device, server)

    def on_update(self, update: Update, server: Any) -> Any:
        return self._timed(self._inner.on_update, update, server)

    def on_ready(self, device: str, server: Any) -> Any:
        return self._timed(self._inner.on_ready, device, server)

    def on_wake(self, server: Any) -> Any:
        return self._timed(self._inner.on_wake, server)


class _Granting(_Timed):
    """The same for a strategy that grants rates."""

    grants: ClassVar[bool] = True


def _some(size: int) -> list[Vector]:
    """One vector for each device, each with its own memory."""
    noise = np.random.default_rng(1).standard_normal(size, dtype=np.float32)
    noise *= np.float32(1e-3)
    return [noise.copy() for _ in range(_DEVICES)]
