"""Compressed updates of a device: their bytes and seconds on the link, and the residual from job to job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from devices.compute.kept_memory import JobTickets
from devices.compute.trainer import Steps, Stepwise
from testbed.profile.schema import Direction
from testbed.wire.messages import Vector
from testbed.wire.ticket_ranges import first_ticket
from testbed.wire.training_job import Job
from tests.devices.parts import LOST, Bench, FixedTimetable

FIRST, SECOND = (1.0, 4.0, -2.0, 0.0), (1.0, 1.0, -2.0, 0.0)
"""With topk:0.25, one of four numbers is sent: 4, then (with e = (1, 0, −2, 0)) −4, or (without e) −2."""


class GivenDeltas:
    """A trainer whose n-th job has the n-th of these deltas."""

    def __init__(self, *deltas: Sequence[float]) -> None:
        self._deltas = deltas

    def __call__(self, job: Job, base: Vector, number: int, tickets: JobTickets) -> Stepwise:
        return Stepwise(self._steps(job, number))

    def _steps(self, job: Job, number: int) -> Steps:
        for _ in range(job.steps):
            yield 1.0
        return np.array(self._deltas[number], np.float32)


def bench(*deltas: Sequence[float], timetable: FixedTimetable | None = None, **changes: object) -> Bench:
    return Bench(timetable, trainer=GivenDeltas(*deltas), **({"compress_updates": "topk:0.25"} | changes))


def sent(device: Bench) -> list[list[float]]:
    return [update.delta.tolist() for _, update in device.delivered]


@pytest.mark.parametrize(("method", "nbytes"), [("none", 16), ("float16", 8), ("int8", 8), ("topk:0.25", 8)])
def test_bytes_and_seconds_of_an_upload_are_those_of_the_compressed_size(method: str, nbytes: int) -> None:
    device = bench(FIRST, compress_updates=method, up=Direction(mbit=8e-6, delay=0.5))  # one byte a second
    device.train(1)
    device.run_until(30.0)
    [uploaded], [downloaded] = device.of_kind("uploaded"), device.of_kind("downloaded")
    assert (uploaded.bytes, uploaded.asked) == (nbytes, nbytes + 0.5)
    assert downloaded.bytes == 16  # models are not compressed
    [(_, update)] = device.delivered
    assert update.nbytes == nbytes


def test_what_was_not_sent_is_added_to_the_next_update() -> None:
    device = bench(FIRST, SECOND)
    device.train(1)
    device.train(2, at=10.0, arrived=1)
    device.run_until(20.0)
    assert sent(device) == [[0.0, 4.0, 0.0, 0.0], [0.0, 0.0, -4.0, 0.0]]


def test_an_upload_that_is_given_up_does_not_change_the_residual() -> None:
    device = bench(FIRST, SECOND, timetable=FixedTimetable(uploads={(0, 0): LOST}), on_drop="give_up")
    device.train(1)
    device.train(2, at=10.0)
    device.run_until(20.0)
    assert sent(device) == [[0.0, 0.0, -2.0, 0.0]]


def test_a_repeated_upload_sends_the_same_bytes() -> None:
    device = bench(FIRST, timetable=FixedTimetable(uploads={(0, 0): LOST}))
    device.train(1)
    device.run_until(20.0)
    assert [event.bytes for event in device.of_kind("uploaded")] == [8, 8]
    assert sent(device) == [[0.0, 4.0, 0.0, 0.0]]


def test_an_upload_that_is_superseded_does_not_change_the_residual() -> None:
    device = bench(FIRST, SECOND, up=Direction(delay=5.0))
    device.train(1)  # computed at 2.25
    device.train(2, at=3.0)
    device.run_until(20.0)
    assert device.of_kind("abandoned")
    assert sent(device) == [[0.0, 0.0, -2.0, 0.0]]


def test_a_job_that_trains_on_an_old_base_knows_what_arrived() -> None:
    lost = FixedTimetable(downloads={(1, 0): LOST})
    device = bench(FIRST, SECOND, timetable=lost, on_lost_download="old_base")
    device.train(1)
    device.train(2, at=10.0, version=8, arrived=1)
    device.run_until(20.0)
    assert [update.version for _, update in device.delivered] == [7, 7]
    assert sent(device)[1] == [0.0, 0.0, -4.0, 0.0]


def test_an_update_for_the_head_on_the_same_device_is_not_compressed() -> None:
    device = bench(FIRST)
    device.device.own_range = 2
    device.train(first_ticket(2) + 1)
    device.run_until(20.0)
    assert sent(device) == [list(FIRST)]
    assert device.delivered[0][1].payload is None
    assert not device.of_kind("uploaded")
