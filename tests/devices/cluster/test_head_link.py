"""The link of a cluster head to the aggregator: models come down and results go up, like any transfer."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import pytest

from devices.cluster.head_link import HeadLink
from testbed.history.trace import Downloaded, Uploaded
from testbed.wire.messages import SendGradient, Train, Update
from testbed.wire.ticket_ranges import CLUSTER_JOBS
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import vector
from tests.devices.parts import LOST, SPEC, FixedTimetable

FIRST = CLUSTER_JOBS


Losses = list[tuple[int, str, float]]
"""Ticket, reason and moment."""


def head_link(
    script: FixedTimetable | None = None, dies_at: float = math.inf, lost: Losses | None = None, **traits: Any
) -> HeadLink:
    def lose(update: Update, reason: str, moment: float) -> None:
        if lost is not None:
            lost.append((update.ticket, reason, moment))

    return HeadLink(dataclasses.replace(SPEC, **traits), script or FixedTimetable(), lose, lead=0.05, dies_at=dies_at)


def model(ticket: int = 7, sent: float = 1.0, number: int = FIRST) -> Train:
    return Train(
        ticket=ticket, number=number, version=3, sent=sent, job=Job(), model=vector(1.0, 2.0), for_cluster=True
    )


def result(ticket: int = 7) -> Update:
    return Update(
        device=SPEC.name,
        ticket=ticket,
        version=3,
        delta=vector(0.5, 0.5),
        samples=9,
        steps=1,
        started=0.0,
        finished=2.0,
        due=2.0,
        loss=None,
        merged=((1, 1.0, 0),),
    )


def test_a_model_has_arrived_when_its_download_ends() -> None:
    link = head_link()
    link.receive(model(), 1.01)
    assert (link.current, link.down_due, link.take(1.2)) == (7, 1.25, None)
    arrived = link.take(1.3)
    assert arrived is not None
    assert (arrived[0].ticket, arrived[1]) == (7, 1.25)
    [event] = link.events
    assert isinstance(event, Downloaded)
    assert (event.ticket, event.job, event.sent, event.asked) == (7, FIRST, 1.0, 0.25)


def test_a_model_that_was_lost_arrives_when_it_is_sent_again() -> None:
    link = head_link(FixedTimetable(downloads={(FIRST, 0): LOST}))
    link.receive(model(), 1.0)
    assert link.take(1.25) is None
    assert (link.current, link.drops) == (0, 1)
    link.receive(model(sent=2.0), 2.0)
    arrived = link.take(2.25)
    assert arrived is not None
    assert (arrived[0].ticket, arrived[1], link.current) == (7, 2.25, 7)


def test_a_resend_of_a_model_that_has_arrived_is_ignored() -> None:
    link = head_link()
    link.receive(model(), 1.0)
    assert link.take(1.25) is not None
    link.receive(model(sent=3.0), 3.0)
    assert link.take(9.0) is None


def test_a_result_is_handed_to_the_transport_before_it_is_due() -> None:
    link = head_link()
    link.receive(model(), 1.0)
    link.take(1.25)
    link.send(result(), model(), 2.0)
    assert link.up_due == pytest.approx(2.45)
    link.advance(2.46)
    [update] = link.outbox
    assert (update.due, update.merged, link.current) == (2.5, ((1, 1.0, 0),), 7)
    link.advance(2.5)
    assert (link.current, link.finished, link.up_due) == (0, 7, math.inf)
    assert [type(event) for event in link.events] == [Downloaded, Uploaded]


@pytest.mark.parametrize(
    ("on_drop", "due"), [("retry", 3.0), ("next_tick", 4.5), ("give_up", None)]
)  # lost at 2.5; ticks of 2 s
def test_a_result_that_is_lost_is_sent_again_or_given_up(on_drop: str, due: float | None) -> None:
    lost: Losses = []
    link = head_link(FixedTimetable(uploads={(FIRST, 0): LOST}), lost=lost, on_drop=on_drop)
    link.receive(model(), 1.0)
    link.take(1.25)
    link.send(result(), model(), 2.0)
    link.advance(10.0)
    assert [update.due for update in link.outbox] == ([] if due is None else [due])
    assert (link.current, link.finished, link.drops) == (0, 7, 1)
    assert lost == ([(7, "its head's upload was given up", 2.5)] if due is None else [])


def test_a_result_for_a_model_that_was_replaced_is_lost() -> None:
    lost: Losses = []
    link = head_link(lost=lost)
    link.receive(model(), 1.0)
    link.take(1.25)
    link.receive(model(ticket=8), 1.5)
    link.send(result(ticket=7), model(), 2.0)
    assert (link.up_due, link.current) == (math.inf, 8)
    assert lost == [(7, "its head was sent another model meanwhile", 2.0)]


@pytest.mark.parametrize(("moment", "arrived"), [(2.4, False), (2.5, True)])  # it is due at 2.5
def test_a_result_that_has_not_arrived_when_another_model_comes_is_lost(moment: float, arrived: bool) -> None:
    lost: Losses = []
    link = head_link(lost=lost)
    link.receive(model(), 1.0)
    link.take(1.25)
    link.send(result(), model(), 2.0)
    link.receive(model(ticket=8, sent=moment), moment)
    assert (link.current, link.up_due) == (8, math.inf)
    assert any(isinstance(event, Uploaded) for event in link.events) == arrived
    assert lost == ([] if arrived else [(7, "its head was sent another model meanwhile", 2.4)])


def test_a_result_that_would_be_due_after_the_kill_is_never_sent() -> None:
    link = head_link(dies_at=2.4)
    link.receive(model(), 1.0)
    link.take(1.25)
    link.send(result(), model(), 2.0)
    link.advance(2.4)
    assert not link.outbox


def test_all_transfers_stop_when_the_cluster_ends() -> None:
    link = head_link()
    link.receive(model(), 1.0)
    link.drop()
    assert (link.take(9.0), link.current, link.down_due) == (None, 0, math.inf)


def signal(ticket: int = 8, sent: float = 3.0) -> SendGradient:
    return SendGradient(ticket=ticket, number=FIRST + 1, sent=sent)


def gradient() -> Update:
    return msgspec.structs.replace(result(4), merged=())


def test_a_gradient_is_uploaded_with_the_ticket_of_the_signal_and_its_bytes_count() -> None:
    link = head_link()
    link.send_gradient(signal(), gradient(), 3.0, 3.01)
    assert (link.current, link.finished, link.up_due) == (8, 8, 3.45)
    link.advance(3.5)
    [sent] = link.outbox
    assert (sent.ticket, sent.version, sent.due, list(sent.delta)) == (8, 3, 3.5, [0.5, 0.5])
    [event] = link.events
    assert isinstance(event, Uploaded)
    assert (event.ticket, event.job, event.sent, event.bytes) == (8, FIRST + 1, 3.0, 8)
    assert (link.current, link.finished) == (0, 8)


def test_a_gradient_that_is_computed_a_moment_later_is_uploaded_then() -> None:
    link = head_link()
    link.send_gradient(signal(sent=1.9), gradient(), 1.9, 1.9)
    assert link.up_due == 2.0 + 0.45  # its computing ends at 2


def test_a_device_without_a_gradient_shows_the_signal_as_finished() -> None:
    link = head_link()
    link.send_gradient(signal(), None, 3.0, 3.0)
    assert (link.current, link.finished, link.up_due) == (0, 8, math.inf)


def test_a_signal_ends_the_result_under_way_and_the_same_signal_again_changes_nothing() -> None:
    losses: Losses = []
    link = head_link(lost=losses)
    link.receive(model(), 1.0)
    link.take(1.3)
    link.send(result(), model(), 2.0)
    link.send_gradient(signal(sent=2.1), gradient(), 2.1, 2.1)
    assert losses == [(7, "its head was asked for a gradient meanwhile", 2.1)]
    link.send_gradient(signal(sent=2.2), gradient(), 2.2, 2.2)
    link.advance(3.0)
    assert [(update.ticket, update.due) for update in link.outbox] == [(8, 2.6)]


def test_a_gradient_that_is_given_up_is_not_tried_again() -> None:
    link = head_link(FixedTimetable(uploads={(FIRST + 1, 0): LOST}), on_drop="give_up")
    link.send_gradient(signal(), gradient(), 3.0, 3.0)
    link.advance(9.0)
    assert (link.current, link.finished, link.outbox, link.drops) == (0, 8, [], 1)
