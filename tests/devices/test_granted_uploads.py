"""A device that uploads only after a grant, at the granted rate. A job takes 0.25 + 2 s, a model has 128 bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.work import State
from testbed.emulation.faults import SeededTimetable, TransferFate
from testbed.profile.schema import Direction, ScriptedEvent
from tests.devices.parts import LOST, Bench, FixedTimetable
from tests.properties import examples

FREE = Direction()
"""An uplink without delay."""


def waiting(**changes: object) -> Bench:
    """Return a device whose training ended at 2.25, and which waits for a grant."""
    bench = Bench(up=FREE, **changes)  # type: ignore[arg-type]
    bench.train(1, grant=True)
    bench.run_until(3.0)
    return bench


def test_it_asks_when_its_training_ends_and_waits() -> None:
    bench = waiting()
    assert [(moment, ask.ticket, ask.due) for moment, ask in bench.asked] == [(2.25, 1, 2.25)]
    assert bench.device.state is State.WAITING
    assert bench.device.due() == float("inf")
    heartbeat = bench.device.heartbeat()
    assert (heartbeat.ticket, heartbeat.finished) == (1, 1)


def test_it_asks_a_little_before_its_training_ends_and_names_that_moment() -> None:
    [(moment, ask)] = waiting(lead=0.125, ahead=0.75).asked
    assert (moment, ask.due) == (2.125, 2.25)


def test_it_uploads_from_the_grant_on_at_the_granted_rate() -> None:
    bench = waiting()
    bench.grant(1, 64.0, at=4.0)
    bench.run_until(10.0)
    assert bench.dues == [(1, 6.0)]
    [event] = bench.of_kind("uploaded")
    assert (event.sent, event.asked, event.waited) == (4.0, 2.0, 1.75)
    assert bench.device.state is State.IDLE


def test_an_upload_begins_when_it_was_granted_and_not_when_the_process_saw_the_grant() -> None:
    bench = waiting()
    bench.grant(1, 64.0, at=4.0, sent=3.5)
    bench.run_until(10.0)
    assert bench.dues == [(1, 5.5)]


@pytest.mark.parametrize("at", [0.0, 0.125, 1.0])
def test_a_device_with_a_grant_before_its_training_ends_does_not_ask(at: float) -> None:
    """The grant arrives during the download, or during the training."""
    bench = Bench(up=FREE)
    bench.train(1, grant=True)
    bench.grant(1, 64.0, at=at)
    bench.run_until(10.0)
    assert (bench.asked, bench.dues) == ([], [(1, 4.25)])
    assert bench.of_kind("uploaded")[0].waited is None


def test_a_grant_that_crosses_the_request_lets_the_upload_begin_when_the_training_ends() -> None:
    bench = Bench(up=FREE, lead=0.125, ahead=0.75)
    bench.train(1, grant=True)
    bench.grant(1, 64.0, at=2.1875)
    bench.run_until(10.0)
    assert len(bench.asked) == 1
    assert bench.dues == [(1, 4.25)]


def test_a_grant_for_another_ticket_changes_nothing() -> None:
    bench = waiting()
    bench.grant(7, 64.0, at=4.0)
    bench.run_until(50.0)
    assert (bench.device.state, bench.deliveries) == (State.WAITING, [])


def test_a_grant_that_was_sent_again_changes_nothing() -> None:
    bench = waiting()
    bench.grant(1, 64.0, at=4.0)
    bench.grant(1, 1.0, at=5.0)
    bench.run_until(10.0)
    assert bench.dues == [(1, 6.0)]


def test_a_lost_upload_is_tried_again_at_the_rate_that_was_granted() -> None:
    bench = waiting(timetable=FixedTimetable(uploads={(0, 0): LOST}))
    bench.grant(1, 64.0, at=4.0)
    bench.run_until(10.0)
    assert [(event.sent, event.asked, event.waited) for event in bench.of_kind("uploaded")] == [
        (4.0, 2.0, 1.75),
        (6.0, 2.0, None),
    ]
    assert bench.dues == [(1, 8.0)]


def test_a_recorded_upload_repeats_its_loss_but_not_its_seconds() -> None:
    recorded = TransferFate(dropped=True, delay_noise=0.0, rate_noise=0.0, seconds=0.5)
    bench = waiting(timetable=FixedTimetable(uploads={(0, 0): recorded}))
    bench.grant(1, 64.0, at=4.0)
    bench.run_until(10.0)
    assert [event.asked for event in bench.of_kind("uploaded")] == [2.0, 2.0]


def test_the_delay_of_the_link_comes_on_top() -> None:
    bench = Bench(up=Direction(mbit=1000.0, delay=0.5))
    bench.train(1, grant=True)
    bench.grant(1, 64.0, at=3.0)
    bench.run_until(10.0)
    assert bench.dues == [(1, 5.5)]


def test_a_device_that_is_granted_a_rate_in_an_absence_uploads_after_it() -> None:
    bench = waiting(script=(ScriptedEvent(at=3.5, device="*", do="suspend", seconds=2.0),))
    bench.grant(1, 64.0, at=4.0)
    bench.run_until(12.0)
    assert bench.dues == [(1, 7.5)]
    [event] = bench.of_kind("uploaded")
    assert (event.sent, event.asked, event.absent) == (4.0, 3.5, 1.5)


def test_a_newer_model_ends_the_waiting() -> None:
    bench = waiting()
    bench.train(2, at=4.0)
    bench.run_until(10.0)
    assert [event.ticket for event in bench.of_kind("abandoned")] == [1]
    assert bench.deliveries == [(2, 6.25)]


def test_a_killed_device_ignores_a_grant() -> None:
    bench = waiting(script=(ScriptedEvent(at=3.5, device="*", do="kill"),))
    bench.grant(1, 64.0, at=4.0)
    bench.run_until(12.0)
    assert (bench.device.state, bench.deliveries) == (State.KILLED, [])


# ---- Algorithm 4


def uploads(bench: Bench) -> list[tuple[float, int]]:
    """Return the value of each update, and the ticket of its baseline. Job n makes updates filled with n."""
    return [(float(update.delta[0]), update.since) for _, update in bench.delivered]


def test_it_uploads_differences_to_the_last_update_that_was_applied() -> None:
    bench = Bench(up=FREE)
    for ticket, baseline in ((1, 0), (2, 1), (3, 1), (4, 3)):  # jobs 0 to 3; ticket 2 was rejected
        bench.train(ticket, baseline=baseline, at=10.0 * ticket)
    bench.run_until(60.0)
    assert uploads(bench) == [(0.0, 0), (1.0, 1), (2.0, 1), (1.0, 3)]


def test_a_retry_sends_the_same_difference() -> None:
    bench = Bench(FixedTimetable(uploads={(1, 0): LOST, (1, 1): LOST}), up=FREE)
    for ticket, baseline in ((1, 0), (2, 1), (3, 2)):
        bench.train(ticket, baseline=baseline, at=10.0 * ticket)
    bench.run_until(60.0)
    assert uploads(bench) == [(0.0, 0), (1.0, 1), (1.0, 2)]


def test_a_lost_download_does_not_change_the_baseline() -> None:
    bench = Bench(FixedTimetable(downloads={(1, 0): LOST}), up=FREE)
    bench.train(1, baseline=0)
    bench.train(2, baseline=1, at=10.0)
    bench.run_until(20.0)
    assert bench.device.heartbeat().ticket == 0
    bench.train(2, baseline=1)
    bench.run_until(30.0)
    assert uploads(bench) == [(0.0, 0), (1.0, 1)]


# ---- random scenarios

TRAINS = st.tuples(st.just("train"), st.integers(0, 1), st.integers(1, 6))
GRANTS = st.tuples(st.just("grant"), st.integers(0, 2), st.integers(1, 6))
WAITS = st.tuples(st.just("wait"), st.floats(0, 4, allow_nan=False), st.just(0))


@examples(300)
@given(
    seed=st.integers(0, 1000),
    policy=st.sampled_from(["retry", "next_tick", "give_up"]),
    late=st.sampled_from([0.0, 0.2]),
    lead=st.sampled_from([0.0, 0.125]),
    actions=st.lists(st.one_of(TRAINS, GRANTS, WAITS), max_size=30),
)
def test_no_upload_begins_before_its_grant_and_a_device_ends_idle_or_waiting(
    seed: int, policy: str, late: float, lead: float, actions: list[tuple[str, float, int]]
) -> None:
    timetable = SeededTimetable(seed=seed, device=0, download_drop=0.3, upload_drop=0.3, suspend=0.3, suspend_max=3.0)
    bench = Bench(timetable, late=late, lead=lead, ahead=0.75, on_drop=policy, up=FREE)
    newest, granted = 0, dict[int, float]()
    for what, amount, number in actions:
        if what == "wait":
            bench.run_until(bench.now + amount)
        elif what == "train":
            newest += 1 - int(amount)
            bench.train(max(1, newest), steps=number, grant=True)
        else:
            ticket = max(1, newest + 1 - int(amount))  # for the last model, for this one, or for the next
            granted.setdefault(ticket, bench.now)
            bench.grant(ticket, 32.0 * number)
    bench.run_until(bench.now + 1000)

    assert bench.device.state in (State.IDLE, State.WAITING)
    assert bench.device.due() == float("inf")
    tickets = [ticket for ticket, _ in bench.deliveries]
    assert len(tickets) == len(set(tickets))
    for event in bench.of_kind("uploaded"):
        assert event.sent >= granted[event.ticket] - 1e-9
    trained = {event.ticket: event for event in bench.of_kind("trained")}
    for moment, ask in bench.asked:
        assert ask.ticket in trained
        assert moment >= ask.due - lead - 1e-9
    assert len({ask.ticket for _, ask in bench.asked}) == len(bench.asked)
    if bench.device.state is State.WAITING:
        assert bench.asked[-1][1].ticket not in tickets


def test_differences_are_read_only() -> None:
    bench = Bench(up=FREE)
    bench.train(1, baseline=0)
    bench.run_until(10.0)
    [(_, update)] = bench.delivered
    assert update.delta.dtype == np.float32
    assert not update.delta.flags.writeable
