"""The memory of a device does not grow with the number of its jobs."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from devices.process.main import DeviceProcess
from testbed.wire.codec import Buffer, decode, encode
from testbed.wire.messages import Stop, Train, Update, Welcome
from testbed.wire.training_job import Job
from tests.devices.parts import Time
from tests.devices.process.test_main import CONFIG, LINKS
from tests.devices.tiny import TinyTask

LOOKS = (300, 800, 1300, 1800)


class Tireless:
    """An aggregator that answers each update with the next job, and counts the allocated blocks now and then."""

    def __init__(self, time: Time) -> None:
        self._time, self._updates = time, 0
        self._queue = [encode(Welcome(origin=time.now)), self._next()]
        self.blocks: list[int] = []

    def _next(self) -> list[Buffer]:
        number, model = self._updates + 1, np.zeros(TinyTask.SIZE, np.float32)
        return encode(Train(ticket=number, number=number, version=number, sent=0.0, job=Job(steps=1), model=model))

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        if not isinstance(decode(frames, TinyTask.SIZE), Update):
            return
        self._updates += 1
        self._queue.append(self._next() if self._updates < LOOKS[-1] else encode(Stop(reason="enough")))
        if self._updates in LOOKS:
            gc.collect()
            self.blocks.append(sys.getallocatedblocks())

    def receive(self, timeout: float) -> list[Buffer] | None:
        if self._queue:
            return [bytes(frame) for frame in self._queue.pop(0)]
        self._time.sleep(timeout)
        return None


class Forgetful(TinyTask):
    def gradient(self, samples: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        self.batches.clear()  # TinyTask keeps them for other tests
        return super().gradient(samples)


@pytest.mark.slow
def test_jobs_leave_nothing_behind_in_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr("testbed.common.clock.time", time)
    spec = dataclasses.replace(CONFIG.spec, throttle="pace", seconds_per_sample=0.01, **LINKS)
    peer = Tireless(time)
    DeviceProcess(dataclasses.replace(CONFIG, spec=spec), Forgetful(), peer, cores=(1,)).run()  # type: ignore[arg-type]
    # a list, a table or an event that is kept would be at least one block for each job; the other allocations in this
    # process (pytest, the threads of its worker, caches) come only now and then
    assert min(after - before for before, after in pairwise(peer.blocks)) < (LOOKS[1] - LOOKS[0]) / 10
