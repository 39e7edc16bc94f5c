from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from devices.work import State
from testbed.emulation.faults import SeededTimetable
from testbed.history.trace import Suspended, Trained, TransferEvent
from tests.devices.parts import Bench
from tests.properties import examples

TIMETABLES = st.builds(
    SeededTimetable,
    seed=st.integers(0, 1000),
    device=st.just(0),
    download_drop=st.sampled_from([0.0, 0.4]),
    upload_drop=st.sampled_from([0.0, 0.4]),
    suspend=st.sampled_from([0.0, 0.5]),
    suspend_max=st.just(3.0),
)
# "train", how many tickets back (0: a new one, 1: the last one), and how many steps; or "wait", and how long
TRAINS = st.tuples(st.just("train"), st.integers(0, 2), st.integers(1, 6))
WAITS = st.tuples(st.just("wait"), st.floats(0, 4, allow_nan=False), st.just(0))


# no deadline and no speed check: the speed of a shared host says nothing about the device
@examples(300)
@given(
    timetable=TIMETABLES,
    policy=st.sampled_from(["retry", "next_tick", "give_up"]),
    pace=st.sampled_from([1 / 64, None]),
    cost=st.sampled_from([0.0, 0.1, 0.7]),
    late=st.sampled_from([0.0, 0.2]),
    lead=st.sampled_from([0.0, 0.125]),
    ahead=st.sampled_from([0.0, 0.75]),
    actions=st.lists(st.one_of(TRAINS, WAITS), max_size=30),
)
def test_a_device_delivers_each_ticket_at_most_once_and_is_idle_in_the_end(
    timetable: SeededTimetable,
    policy: str,
    pace: float | None,
    cost: float,
    late: float,
    lead: float,
    ahead: float,
    actions: list[tuple[str, float, int]],
) -> None:
    bench = Bench(
        timetable,
        cost=cost,
        late=late,
        lead=lead,
        ahead=ahead,
        on_drop=policy,
        seconds_per_sample=pace,
        throttle="none" if pace is None else "pace",
    )
    newest = 0
    for what, amount, steps in actions:
        if what == "wait":
            bench.run_until(bench.now + amount)
        else:
            newest += amount == 0
            bench.train(max(1, newest - max(0, int(amount) - 1)), steps=steps)
    bench.run_until(bench.now + 1000)

    assert bench.device.state is State.IDLE
    assert bench.device.due() == float("inf")
    delivered = Counter(ticket for ticket, _ in bench.deliveries)
    assert all(count == 1 for count in delivered.values())
    trained = {event.ticket: event for event in bench.of_kind("trained")}
    abandoned = {event.ticket for event in bench.of_kind("abandoned")}
    for moment, update in bench.delivered:
        assert trained[update.ticket].steps == update.steps
        assert trained[update.ticket].t == update.finished or (late and trained[update.ticket].t > update.finished)
        assert moment >= update.due - lead - 1e-9
    # each update that was sent arrived, unless the work was replaced before the update was due
    arrived = [event.ticket for event in bench.of_kind("uploaded") if not event.dropped]
    assert arrived == [ticket for ticket, _ in bench.deliveries if ticket in arrived or not lead]
    assert delivered.keys() - set(arrived) <= abandoned
    # each model that reached the device was trained to the end or abandoned
    begun = Counter(event.ticket for event in bench.of_kind("downloaded") if not event.dropped)
    assert begun.keys() == abandoned | trained.keys()
    for event in bench.events:
        if isinstance(event, (TransferEvent, Suspended, Trained)):
            assert event.obtained >= event.asked - 1e-9


@examples(200)
@given(
    timetable=TIMETABLES,
    policy=st.sampled_from(["retry", "next_tick", "give_up"]),
    late=st.floats(0.0, 0.49, allow_nan=False),
    lead=st.sampled_from([0.0, 0.125]),
    ahead=st.sampled_from([0.0, 0.75]),
    jobs=st.lists(st.integers(1, 6), min_size=1, max_size=5),
)
def test_a_process_that_wakes_late_by_less_than_a_step_changes_no_due_moment(
    timetable: SeededTimetable, policy: str, late: float, lead: float, ahead: float, jobs: list[int]
) -> None:
    seen = []
    for lateness in (0.0, late):
        bench = Bench(timetable, late=lateness, lead=lead, ahead=ahead, on_drop=policy)
        for ticket, steps in enumerate(jobs, 1):
            bench.train(ticket, steps=steps, at=200.0 * ticket, sent=200.0 * ticket)
        bench.run_until(200.0 * len(jobs) + 200.0)
        computed = [(event.asked, event.obtained, event.misses) for event in bench.of_kind("trained")]
        transfers = [
            (event.sent, event.asked, event.obtained, event.dropped)
            for kind in ("downloaded", "uploaded")
            for event in bench.of_kind(kind)
        ]
        seen.append((bench.dues, computed, transfers))
    assert seen[0] == seen[1]
