"""The limit on messages of a peer, and how refusals are recorded."""

from __future__ import annotations

from collections import Counter

import pytest

from aggregator.connections.limits import BAD, Bucket, Limits
from aggregator.connections.refusals import Refusals
from testbed.history import trace


def test_a_bucket_allows_one_second_of_messages_at_once_and_then_its_limit() -> None:
    bucket = Bucket(10.0)
    assert [bucket.take(0.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert [bucket.take(0.25) for _ in range(3)] == [True, True, False]
    assert sum(bucket.take(100.0) for _ in range(20)) == 10  # no more tokens are saved


@pytest.mark.parametrize("interval", [0.001, 0.05, 0.3])
def test_in_the_long_run_no_peer_exceeds_the_limit(interval: float) -> None:
    bucket, seconds = Bucket(50.0), 20.0
    taken = sum(bucket.take(i * interval) for i in range(int(seconds / interval)))
    assert taken <= 50.0 * (seconds + 1)
    assert taken >= min(50.0 * seconds, seconds / interval) * 0.99


def test_a_clock_that_is_reset_changes_no_tokens() -> None:
    bucket = Bucket(10.0)
    assert all(bucket.take(1000.0) for _ in range(10))
    assert not bucket.take(0.0)
    assert bucket.take(0.1)


def test_a_peer_that_floods_does_not_affect_the_others() -> None:
    limits = Limits(["a", "b"], 1000.0)
    assert sum(limits.allow("a", 0.0) for _ in range(5000)) == 1000
    assert all(limits.allow("b", 0.0) for _ in range(1000))


def test_unknown_peers_share_one_bucket_and_a_bad_message_costs_more() -> None:
    limits = Limits(["a"], 1000.0)
    taken = 0
    for number in range(100):
        if limits.allow(f"stranger/{number}", 0.0):
            limits.charge(f"stranger/{number}")
            taken += 1
    assert taken == pytest.approx(1000.0 / BAD, abs=1)
    assert limits.allow("a", 0.0)


def recorded(events: list[trace.Event]) -> list[tuple[float, str, str, int]]:
    return [(event.t, event.peer, event.reason, event.count) for event in events if isinstance(event, trace.Refusal)]


def test_the_first_refusal_is_recorded_at_once_and_a_flood_once_a_second_with_a_count() -> None:
    events: list[trace.Event] = []
    refusals = Refusals(events.append)
    assert refusals.add("a", "why", 1.0, 10.0)
    assert refusals.add("b", "why", 1.0, 10.0)
    assert not any(refusals.add("a", "why", 1.5, 10.5) for _ in range(1000))
    refusals.flush(1.5, 10.5)
    assert recorded(events) == [(1.0, "a", "why", 1), (1.0, "b", "why", 1)]
    refusals.flush(2.0, 11.0)
    assert recorded(events)[2:] == [(2.0, "a", "why", 1000)]
    assert not refusals.add("a", "why", 2.5, 11.5)  # the flood continues
    assert refusals.add("b", "why", 2.5, 11.5)  # there was none for a second
    refusals.flush(2.5, 11.5, last=True)
    assert recorded(events)[3:] == [(2.5, "b", "why", 1), (2.5, "a", "why", 1)]


def test_a_peer_that_changes_names_and_reasons_is_counted_without_filling_the_trace() -> None:
    events: list[trace.Event] = []
    refusals = Refusals(events.append)
    for number in range(10_000):
        refusals.add(f"stranger/{number}", f"reason {number}" * 100, 1.0, 10.0)
    refusals.flush(1.0, 10.0, last=True)
    assert len(events) < 100
    assert sum(count for *_, count in recorded(events)) == 10_000
    assert max(len(reason) for _, _, reason, _ in recorded(events)) == 300


def test_a_name_of_any_bytes_is_printable() -> None:
    events: list[trace.Event] = []
    Refusals(events.append).add("stranger/\udc80ä\n", "why", 1.0, 10.0)
    assert Counter(peer for _, peer, _, _ in recorded(events)) == {"stranger/\\udc80\\xe4\n": 1}
