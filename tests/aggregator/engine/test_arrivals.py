from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.engine.arrivals import Arrivals
from testbed.wire.messages import Ask, Update
from tests.properties import examples


def update(ticket: int, due: float) -> Update:
    return Update(
        device="a",
        ticket=ticket,
        version=0,
        delta=np.zeros(1, np.float32),
        samples=1,
        steps=1,
        started=0.0,
        finished=0.0,
        due=due,
        loss=None,
    )


def waiting(*dues: float) -> Arrivals:
    arrivals = Arrivals()
    for ticket, due in enumerate(dues, 1):
        arrivals.add(update(ticket, due), received=0.25)
    return arrivals


def taken(arrivals: Arrivals, now: float) -> list[int]:
    tickets = []
    while (found := arrivals.pop(now, math.inf)) is not None:
        tickets.append(found[0].ticket)
    return tickets


def test_nothing_arrives_if_nothing_was_added() -> None:
    assert Arrivals().next_due == math.inf
    assert Arrivals().pop(1e9, math.inf) is None


def test_updates_arrive_in_the_order_in_which_they_are_due() -> None:
    assert taken(waiting(3.0, 1.0, 2.0), now=5.0) == [2, 3, 1]


def test_updates_that_are_due_together_arrive_in_the_order_of_their_receipt() -> None:
    assert taken(waiting(2.0, 1.0, 2.0, 1.0, 2.0), now=2.0) == [2, 4, 1, 3, 5]


def test_nothing_arrives_before_it_is_due() -> None:
    arrivals = waiting(2.0, 1.0)
    assert arrivals.next_due == 1.0
    assert taken(arrivals, now=0.999) == []
    assert taken(arrivals, now=1.0) == [2]
    assert arrivals.next_due == 2.0
    assert taken(arrivals, now=1.999) == []
    assert taken(arrivals, now=2.0) == [1]


def test_an_update_that_is_received_later_may_arrive_earlier() -> None:
    arrivals = waiting(2.0)
    arrivals.add(update(9, 1.5), received=0.5)
    assert arrivals.next_due == 1.5
    assert taken(arrivals, now=3.0) == [9, 1]


@examples(100)
@given(st.lists(st.floats(0, 10), max_size=30), st.lists(st.floats(0, 12), max_size=10))
def test_at_any_moment_exactly_what_is_due_has_arrived(dues: list[float], looks: list[float]) -> None:
    arrivals, tickets = waiting(*dues), []
    for now in sorted(looks):
        tickets += taken(arrivals, now)
        assert sorted(tickets) == [ticket for ticket, due in enumerate(dues, 1) if due <= now]
    assert [dues[ticket - 1] for ticket in tickets] == sorted(dues[ticket - 1] for ticket in tickets)


def test_the_moment_of_receipt_is_kept() -> None:
    arrivals = waiting(1.0)
    found = arrivals.pop(2.0, math.inf)
    assert found is not None
    assert found[1] == 0.25


@pytest.mark.parametrize(("due", "counts_from"), [(0.125, 0.25), (0.25, 0.25), (1.0, 1.0)])
def test_an_update_counts_from_when_it_was_due_or_from_when_it_was_received_if_that_was_later(
    due: float, counts_from: float
) -> None:
    found = waiting(due).pop(2.0, math.inf)
    assert found is not None
    assert found[2] == counts_from


@pytest.mark.parametrize(("wake_at", "arrives"), [(0.999, False), (1.0, True), (1.5, True)])
def test_a_wake_comes_after_the_updates_of_its_moment(wake_at: float, arrives: bool) -> None:
    assert (waiting(1.0).pop(2.0, wake_at) is not None) == arrives


def test_without_a_recording_no_order_is_prescribed() -> None:
    arrivals = waiting(1.0)
    assert (arrivals.has_waiting("a", 1), arrivals.next_arrival, arrivals.until(9.0)) == (False, None, 9.0)
    assert arrivals.take_outdated("a", 2) is None
    assert arrivals.allows_wake(1e9)
    assert not arrivals.is_over(9, math.inf)


def test_one_update_is_kept_for_each_device_and_ticket_until_it_arrives() -> None:
    arrivals, same = Arrivals(), update(1, 0.5)
    assert not arrivals.has(same)
    arrivals.add(same, 0.0)
    assert arrivals.has(update(1, 0.7))
    assert not arrivals.has(update(2, 0.5))
    assert not arrivals.has(Ask(device="a", ticket=1, due=0.5))  # a request is another thing than the update
    assert arrivals.pop(1.0, math.inf) is not None
    assert not arrivals.has(same)
