"""The status file for the live view."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aggregator.course.evaluation import EvaluationQueue
from aggregator.engine.tickets import Tally
from aggregator.process import status
from aggregator.process.status import DeviceStatus, Problems, Status
from aggregator.strategies.eafl.eafl import EAFL
from testbed.common.clock import WallClock
from testbed.history import trace
from testbed.wire.ticket_ranges import first_ticket
from tests.aggregator.strategies.by_hand import ByHand


def test_tickets_of_cluster_heads_are_counted_with_the_others(tmp_path: Path) -> None:
    hand = ByHand(EAFL(clusters=1), (0.0,))
    hand.start(a=1)
    hand.update("a", 1.0)  # for the clustering; a becomes head and is sent the model
    [group] = hand.events(trace.Grouped)
    ticket = first_ticket(group.ticket_range) + 1
    sent = trace.Dispatched(t=0.0, device="a", ticket=ticket, version=0, steps=1)
    lost = trace.Lost(t=1.0, device="a", ticket=ticket, reason="it was given up")
    hand.engine.head_ledgers.enter("a", group.ticket_range, [sent, lost])
    path = tmp_path / "status.json"
    status.write(path, 1.0, WallClock.starting_now(), hand.engine, EvaluationQueue(1.0), {}, ["a"], Problems())
    found = status.read(path)
    assert found is not None
    assert found.tally == Tally(dispatched=3, applied=0, rejected=1, lost=1, superseded=0, delivered=0)


STATUS = Status(
    t=2.5,
    dilation=0.5,
    origin=100.25,
    version=7,
    scored=6,
    problem="disk full",
    problems=2,
    last_problem="disk full",
    metrics={"loss": 0.5},
    tally=Tally(dispatched=9, applied=7, lost=1),
    devices={"a": DeviceStatus("training", 6, 1, 0.25), "b": DeviceStatus("gone", None, 0, None)},
)
WRITTEN = (
    '{"t":2.5,"dilation":0.5,"origin":100.25,"version":7,"scored":6,"problem":"disk full","problems":2,'
    '"last_problem":"disk full","metrics":{"loss":0.5},'
    '"tally":{"dispatched":9,"applied":7,"rejected":0,"lost":1,"superseded":0,"delivered":0},'
    '"devices":{"a":["training",6,1,0.25],"b":["gone",null,0,null]}}'
)


def test_a_problem_is_counted_when_it_begins_and_remembered_after_its_end() -> None:
    problems = Problems()
    for text in ("", "disk full", "disk full, too", ""):
        problems.note(text)
    assert (problems.now, problems.last, problems.begun) == ("", "disk full", 1)
    problems.note("disk full")
    assert (problems.now, problems.last, problems.begun) == ("disk full", "disk full", 2)


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    path.write_text(WRITTEN, encoding="utf-8")
    assert status.read(path) == STATUS
    assert msgspec.json.encode(STATUS).decode() == WRITTEN


@pytest.mark.parametrize("content", [b"", WRITTEN[:-9].encode(), b"\xff", b"[]", b'{"t": 1.0}', b'{"t": "soon"}'])
def test_a_file_that_is_half_written_or_of_something_else_is_no_status(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "status.json"
    assert status.read(path) is None
    path.write_bytes(content)
    assert status.read(path) is None
