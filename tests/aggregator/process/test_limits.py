"""How much a peer may say, and how what was refused is told."""

from __future__ import annotations

from collections import Counter

import pytest

from aggregator.process.limits import BAD, Bucket, Limits
from aggregator.process.refusals import Refusals
from testbed.history import trace


def test_a_bucket_gives_a_seconds_worth_at_once_and_then_by_its_rate() -> None:
    bucket = Bucket(10.0)
    assert [bucket.take(0.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert [bucket.take(0.25) for _ in range(3)] == [True, True, False]
    assert sum(bucket.take(100.0) for _ in range(20)) == 10  # it does not gather more


@pytest.mark.parametrize("interval", [0.001, 0.05, 0.3])
def test_in_the_long_run_nobody_says_more_than_his_rate(interval: float) -> None:
    bucket, seconds = Bucket(50.0), 20.0
    taken = sum(bucket.take(i * interval) for i in range(int(seconds / interval)))
    assert taken <= 50.0 * (seconds + 1)
    assert taken >= min(50.0 * seconds, seconds / interval) * 0.99


def test_a_clock_that_begins_anew_gives_and_takes_nothing() -> None:
    bucket = Bucket(10.0)
    assert all(bucket.take(1000.0) for _ in range(10))
    assert not bucket.take(0.0)
    assert bucket.take(0.1)


def test_one_that_floods_takes_nothing_from_others() -> None:
    limits = Limits(["a", "b"], 1000.0)
    assert sum(limits.allow("a", 0.0) for _ in range(5000)) == 1000
    assert all(limits.allow("b", 0.0) for _ in range(1000))


def test_strangers_share_what_they_have_and_a_bad_message_is_dear() -> None:
    limits = Limits(["a"], 1000.0)
    taken = 0
    for number in range(100):
        if limits.allow(f"stranger/{number}", 0.0):
            limits.charge(f"stranger/{number}")
            taken += 1
    assert taken == pytest.approx(1000.0 / BAD, abs=1)
    assert limits.allow("a", 0.0)


def told(events: list[trace.Event]) -> list[tuple[float, str, str, int]]:
    return [(event.t, event.peer, event.reason, event.count) for event in events if isinstance(event, trace.Refusal)]


def test_the_first_is_told_at_once_and_a_flood_once_a_second_with_a_count() -> None:
    events: list[trace.Event] = []
    refusals = Refusals(events.append)
    assert refusals.add("a", "why", 1.0, 10.0)
    assert refusals.add("b", "why", 1.0, 10.0)
    assert not any(refusals.add("a", "why", 1.5, 10.5) for _ in range(1000))
    refusals.tell(1.5, 10.5)
    assert told(events) == [(1.0, "a", "why", 1), (1.0, "b", "why", 1)]
    refusals.tell(2.0, 11.0)
    assert told(events)[2:] == [(2.0, "a", "why", 1000)]
    assert not refusals.add("a", "why", 2.5, 11.5)  # it goes on
    assert refusals.add("b", "why", 2.5, 11.5)  # for a second there was none
    refusals.tell(2.5, 11.5, last=True)
    assert told(events)[3:] == [(2.5, "b", "why", 1), (2.5, "a", "why", 1)]


def test_whoever_changes_names_and_reasons_fills_no_trace_and_is_counted_all_the_same() -> None:
    events: list[trace.Event] = []
    refusals = Refusals(events.append)
    for number in range(10_000):
        refusals.add(f"stranger/{number}", f"reason {number}" * 100, 1.0, 10.0)
    refusals.tell(1.0, 10.0, last=True)
    assert len(events) < 100
    assert sum(count for *_, count in told(events)) == 10_000
    assert max(len(reason) for _, _, reason, _ in told(events)) == 300


def test_a_name_of_any_bytes_is_printable() -> None:
    events: list[trace.Event] = []
    Refusals(events.append).add("stranger/\udc80ä\n", "why", 1.0, 10.0)
    assert Counter(peer for _, peer, _, _ in told(events)) == {"stranger/\\udc80\\xe4\n": 1}
