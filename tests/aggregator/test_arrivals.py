from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.arrivals import Arrivals
from testbed.messages import Update


def update(ticket: int, due: float) -> Update:
    return Update(
        device="a", ticket=ticket, version=0, delta=np.zeros(1, np.float32), samples=1, steps=1,
        started=0.0, finished=0.0, due=due, loss=None,
    )  # fmt: skip


def waiting(*dues: float) -> Arrivals:
    arrivals = Arrivals()
    for ticket, due in enumerate(dues, 1):
        arrivals.add(update(ticket, due), received=0.25)
    return arrivals


def taken(arrivals: Arrivals, now: float) -> list[int]:
    tickets = []
    while (found := arrivals.pop(now)) is not None:
        tickets.append(found[0].ticket)
    return tickets


def test_nobody_arrives_where_nobody_is_expected() -> None:
    assert Arrivals().next_due == math.inf
    assert Arrivals().pop(1e9) is None


def test_updates_arrive_in_the_order_in_which_they_are_due() -> None:
    assert taken(waiting(3.0, 1.0, 2.0), now=5.0) == [2, 3, 1]


def test_updates_that_are_due_together_arrive_in_the_order_in_which_they_came() -> None:
    assert taken(waiting(2.0, 1.0, 2.0, 1.0, 2.0), now=2.0) == [2, 4, 1, 3, 5]


def test_nothing_arrives_before_it_is_due() -> None:
    arrivals = waiting(2.0, 1.0)
    assert arrivals.next_due == 1.0
    assert taken(arrivals, now=0.999) == []
    assert taken(arrivals, now=1.0) == [2]
    assert arrivals.next_due == 2.0
    assert taken(arrivals, now=1.999) == []
    assert taken(arrivals, now=2.0) == [1]


def test_an_update_that_comes_later_may_arrive_earlier() -> None:
    arrivals = waiting(2.0)
    arrivals.add(update(9, 1.5), received=0.5)
    assert arrivals.next_due == 1.5
    assert taken(arrivals, now=3.0) == [9, 1]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.floats(0, 10), max_size=30), st.lists(st.floats(0, 12), max_size=10))
def test_whenever_one_looks_what_is_due_and_only_that_has_arrived(dues: list[float], looks: list[float]) -> None:
    arrivals, tickets = waiting(*dues), []
    for now in sorted(looks):
        tickets += taken(arrivals, now)
        assert sorted(tickets) == [ticket for ticket, due in enumerate(dues, 1) if due <= now]
    assert [dues[ticket - 1] for ticket in tickets] == sorted(dues[ticket - 1] for ticket in tickets)


def test_an_update_remembers_when_it_was_received() -> None:
    arrivals = waiting(1.0)
    found = arrivals.pop(2.0)
    assert found is not None
    assert found[1] == 0.25
