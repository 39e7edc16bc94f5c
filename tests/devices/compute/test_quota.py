"""Throttling by signals, on a manual clock with a fake worker."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import cast

import pytest

from devices.compute.quota import SignalQuota
from devices.compute.worker import Worker
from testbed.host.kernel import Usage


@dataclass
class FakeWorker:
    """Replaces the worker: uses a whole core while it is not throttled."""

    cpu: float = 3.0
    is_computing: bool = True
    throttled: bool = False
    calls: list[bool] = field(default_factory=list)

    def usage(self) -> Usage:
        return Usage(self.cpu, 0.0)

    def throttle(self, throttled: bool) -> None:
        self.throttled = throttled
        self.calls.append(throttled)


def quota(worker: FakeWorker, share: float) -> SignalQuota:
    return SignalQuota(cast(Worker, worker), share)


@pytest.mark.parametrize("share", [0.5, 0.2, 0.02])
def test_in_the_long_run_the_worker_gets_its_share(share: float) -> None:
    worker = FakeWorker()
    throttle, now = quota(worker, share), 100.0
    while now < 110.0:
        throttle.act(now)
        if not worker.throttled:
            worker.cpu += throttle.due - now
        now = throttle.due
    assert (worker.cpu - 3.0) / (now - 100.0) == pytest.approx(share, rel=0.01)


def test_a_worker_that_had_to_wait_for_its_core_may_catch_up() -> None:
    worker = FakeWorker()
    throttle = quota(worker, 0.25)
    throttle.act(10.0)
    worker.cpu += 0.1
    throttle.act(11.0)  # it was entitled to 0.25 s
    assert not worker.throttled
    worker.cpu += 0.2
    throttle.act(11.1)
    assert worker.throttled
    assert throttle.due == pytest.approx(10.0 + 0.3 / 0.25)


def test_a_worker_cannot_use_the_seconds_from_before_its_job() -> None:
    worker = FakeWorker()
    throttle = quota(worker, 0.5)
    throttle.act(0.0)
    worker.is_computing = False
    throttle.act(5.0)
    assert throttle.due == math.inf
    worker.is_computing = True
    throttle.act(100.0)
    worker.cpu += 0.1
    throttle.act(100.1)
    assert worker.throttled
    assert throttle.due == pytest.approx(100.2)
