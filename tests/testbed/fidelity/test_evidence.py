"""Evidence from a trace: events by hand, in the order in which the aggregator records them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from testbed.fidelity.evidence import gather
from testbed.fidelity.measurements import Computed, Delivery, Evidence
from testbed.history import trace
from testbed.history.trace import Event, Miss, Use
from tests.testbed.examples import EVENTS

DOWN, COMPUTE, UP = 0.25, 1.0, 0.5
"""Seconds asked for the parts of a round trip; all are exact as floats."""


def header(**changes: Any) -> trace.Header:
    plain = trace.Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="n",
        strategy="fedavg",
        seed=7,
        dilation=1.0,
        demand=0.5,
        pressure=0.05,
        started="2024",
        host="h",
    )
    return replace(plain, **changes)


def dispatched(ticket: int = 1, at: float = 0.0, device: str = "a") -> trace.Dispatched:
    return trace.Dispatched(t=at, device=device, ticket=ticket, version=0, steps=10)


def downloaded(ticket: int = 1, sent: float = 0.0, **changes: Any) -> trace.Downloaded:
    plain = trace.Downloaded(
        t=sent + DOWN,
        device="a",
        ticket=ticket,
        job=0,
        attempt=0,
        sent=sent,
        asked=DOWN,
        obtained=DOWN,
        bytes=400,
        dropped=False,
    )
    return replace(plain, **changes)


def trained(ticket: int = 1, end: float = DOWN + COMPUTE, **changes: Any) -> trace.Trained:
    plain = trace.Trained(
        t=end,
        device="a",
        ticket=ticket,
        steps=100,
        checks=100,
        misses=[],
        asked=COMPUTE,
        obtained=COMPUTE,
        use=Use(cpu=0.25, waited=0.0, stolen=0.0),
    )
    return replace(plain, **changes)


def abandoned(ticket: int = 1, **changes: Any) -> trace.Abandoned:
    plain = trace.Abandoned(t=1.0, device="a", ticket=ticket, steps=3, seconds=0.75, checks=3, misses=[])
    return replace(plain, **changes)


def uploaded(ticket: int = 1, sent: float = DOWN + COMPUTE, **changes: Any) -> trace.Uploaded:
    plain = trace.Uploaded(
        t=sent + UP,
        device="a",
        ticket=ticket,
        job=0,
        attempt=0,
        sent=sent,
        asked=UP,
        obtained=UP,
        bytes=400,
        dropped=False,
    )
    return replace(plain, **changes)


def arrived(ticket: int = 1, at: float = DOWN + COMPUTE + UP, **changes: Any) -> trace.Arrived:
    """An arrival that is received and handled ``at`` that moment, and due then by default."""
    plain = trace.Arrived(
        t=at, device="a", ticket=ticket, due=at, received=at, handled=at, bytes=400, version=0, staleness=0, loss=0.5
    )
    return replace(plain, **changes)


def aggregated(*tickets: int, fresh: int | None = None, at: float = 2.0) -> trace.Aggregated:
    fresh = len(tickets) if fresh is None else fresh
    return trace.Aggregated(t=at, version=1, tickets=list(tickets), weights=[1.0] * len(tickets), staleness=[0] * fresh)


def stopped(in_flight: int = 0, at: float = 10.0) -> trace.Stopped:
    return trace.Stopped(t=at, reason="over", version=1, in_flight=in_flight)


def round_trip(ticket: int = 1, at: float = 0.0, device: str = "a", job: int = 0, **changes: Any) -> list[Event]:
    """A job from its dispatch to its version; ``changes`` are those of its Trained."""
    who = {"device": device}
    return [
        dispatched(ticket, at, device),
        downloaded(ticket, at, job=job, **who),
        trained(ticket, at + DOWN + COMPUTE, **who, **changes),
        uploaded(ticket, at + DOWN + COMPUTE, job=job, **who),
        arrived(ticket, at + DOWN + COMPUTE + UP, **who),
        aggregated(ticket, at=at + DOWN + COMPUTE + UP),
    ]


def of(*events: Event) -> Computed:
    """The computing of device a."""
    return gather(events).computed["a"]


def trips(found: Computed) -> tuple[int, float, float]:
    """The round trips of a device: how many, and their seconds, asked and obtained."""
    return found.trips, found.trips_asked, found.trips_obtained


def deliveries(events: Iterable[Event]) -> list[Delivery]:
    noted: list[Delivery] = []
    gather(events, noted.append)
    return noted


# ---- round trips


def test_a_round_trip_is_the_sum_of_its_parts_against_the_aggregators_clock() -> None:
    late = [replace(event, handled=2.0) if isinstance(event, trace.Arrived) else event for event in round_trip()]
    assert trips(of(*round_trip())) == (1, 1.75, 1.75)
    assert trips(of(*late)) == (1, 1.75, 2.0)


def test_the_parts_of_a_round_trip_may_be_reported_in_any_order() -> None:
    sent, down, computed, up, there, made = round_trip()
    assert gather([sent, down, computed, there, made, up]) == gather([sent, down, computed, up, there, made])


def test_a_suspension_counts_as_asked() -> None:
    suspension = trace.Suspended(t=1.0, device="a", ticket=1, asked=0.5, obtained=0.5)
    events = [dispatched(), downloaded(), suspension, trained(), uploaded(), arrived(at=2.25)]
    assert trips(of(*events)) == (1, 2.25, 2.25)


@pytest.mark.parametrize(
    "loss",
    [
        downloaded(dropped=True),
        uploaded(dropped=True),
        trace.Resent(t=0.0, device="a", ticket=1),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_round_trip_with_a_lost_transfer_is_not_judged(loss: Event) -> None:
    assert of(dispatched(), loss, *round_trip()[1:]).trips == 0


def test_a_round_trip_to_a_suspended_device_is_left_out_or_begins_when_it_wakes() -> None:
    # restarted while suspended: the model waits at the device, which wakes at 5
    events = [dispatched(), downloaded(sent=5.0), trained(end=6.25), uploaded(sent=6.25), arrived(at=6.75)]
    assert trips(of(*events)) in ((0, 0.0, 0.0), (1, 1.75, 1.75))


# ---- computing


@pytest.mark.parametrize(
    ("misses", "errors"),
    [
        ([], []),
        ([Miss(3, 1.0, 0.25)], [0.25, 0.25]),  # the next one took less than asked
        ([Miss(10, 1.0, 0.25)], [0.25]),  # the last: none comes after it
        ([Miss(3, 2.0, 0.5)], [0.25, 0.25]),
        ([Miss(3, 1.0, 0.25), Miss(4, 1.0, 0.75)], [0.25, 0.5, 0.75]),
        ([Miss(3, 1.0, 0.75), Miss(4, 1.0, 0.25)], [0.75, 0.5, 0.25]),
        ([Miss(3, 1.0, 0.5), Miss(5, 1.0, 0.25)], [0.5, 0.5, 0.25, 0.25]),
    ],
)
def test_a_late_step_took_longer_and_the_next_one_less(misses: list[Miss], errors: list[float]) -> None:
    found = gather([trained(checks=10, misses=misses)])
    computed = found.computed["a"]
    assert sorted(error for (error,) in found.errors) == sorted(errors)
    assert (computed.checks, computed.misses) == (10, len(misses))


def test_abandoned_jobs_count_only_by_their_deadlines() -> None:
    computed = of(trained(1, checks=4, obtained=1.25), trained(2, checks=4), abandoned(3, misses=[Miss(3, 0.25, 0.5)]))
    assert (computed.asked, computed.obtained) == (2.0, 2.25)
    assert (computed.checks, computed.misses) == (11, 1)


def test_a_device_without_a_speed_has_nothing_asked() -> None:
    computed = of(trained(asked=0.0, checks=0))
    assert (computed.asked, computed.obtained) == (0.0, 0.0)


def test_stolen_time_is_a_share_of_host_seconds_with_a_deadline() -> None:
    use = Use(cpu=0.5, waited=0.25, stolen=0.125)
    computed = of(header(dilation=2.0), trained(use=use), trained(2, use=replace(use, stolen=0.5)))
    assert (computed.waited, computed.stolen, computed.critical) == (0.5, 0.625, 4.0)
    assert computed.worst_job == 0.25
    assert computed.metered


def test_abandoned_work_had_deadlines_for_the_seconds_spent_on_it() -> None:
    computed = of(abandoned(use=Use(cpu=0.5, waited=0.25, stolen=0.25)))
    assert (computed.critical, computed.worst_job) == (0.75, pytest.approx(1 / 3))


def test_a_device_without_figures_of_the_kernel_is_not_metered() -> None:
    assert not of(trained(use=None)).metered


# ---- deliveries


def lateness(events: Iterable[Event]) -> list[tuple[bool, float]]:
    return [(delivery.up, delivery.late) for delivery in deliveries(events)]


def test_an_upload_arrives_when_the_aggregator_receives_it() -> None:
    assert lateness([uploaded(), arrived(at=2.0)]) == [(True, 0.25)]


def test_a_model_received_late_is_on_time_if_the_first_deadline_was_met() -> None:
    late = downloaded(obtained=0.5)
    assert lateness([late, trained()]) == [(False, 0.0)]
    assert lateness([late, trained(misses=[Miss(2, 1.0, 0.1)])]) == [(False, 0.0)]
    assert lateness([late, trained(misses=[Miss(1, 1.0, 0.1)])]) == [(False, 0.25)]
    assert lateness([late, trained(checks=0, asked=0.0)]) == [(False, 0.25)]
    assert list(gather([late]).pickups) == [(0.25,)]


def test_a_lost_transfer_has_not_arrived() -> None:
    lost = [downloaded(dropped=True), uploaded(dropped=True, attempt=3, job=2)]
    assert [(d.up, d.job, d.attempt, d.arrived, d.dropped) for d in deliveries(lost)] == [
        (False, 0, 0, None, True),
        (True, 2, 3, None, True),
    ]
    assert not gather(lost).pickups


def test_a_change_of_the_size_is_noticed() -> None:
    assert gather([uploaded(), arrived()]).bytes_wrong == 0
    assert gather([uploaded(), arrived(bytes=399)]).bytes_wrong == 1


@pytest.mark.parametrize(
    ("settled", "end", "wrong"),
    [
        ([], 10.0, 1),
        ([], 1.85 + 1e-9, 1),  # delivered at 1.75, a little more than 0.1 s before the end
        ([], 1.8, 0),
        ([trace.Lost(t=2.0, device="a", ticket=1, reason="it left")], 10.0, 0),
        ([trace.Superseded(t=1.0, device="a", ticket=1)], 10.0, 0),
    ],
)
def test_an_upload_whose_ticket_never_ends_counts_as_missing(settled: list[Event], end: float, wrong: int) -> None:
    assert gather([dispatched(), uploaded(), *settled, stopped(1, end)]).bytes_wrong == wrong


# ---- order and tickets


def test_a_transfer_that_began_before_it_was_sent_is_too_early() -> None:
    assert gather([dispatched(at=1.0), downloaded(sent=1.0)]).too_early == 0
    assert gather([dispatched(at=1.0), downloaded(sent=3.0)]).too_early == 0  # the device was suspended
    assert gather([dispatched(at=1.0), downloaded(sent=0.999)]).too_early == 1
    again = trace.Resent(t=2.0, device="a", ticket=1)
    lost = downloaded(sent=1.0, dropped=True)
    assert gather([dispatched(at=1.0), lost, again, downloaded(sent=2.0, attempt=1)]).too_early == 0
    assert gather([dispatched(at=1.0), lost, again, downloaded(sent=1.5, attempt=1)]).too_early == 1
    thrice = [dispatched(at=1.0), again, trace.Resent(t=3.0, device="a", ticket=1)]
    assert gather([*thrice, downloaded(sent=3.0, attempt=2)]).too_early == 0
    assert gather([*thrice, downloaded(sent=2.0, attempt=2)]).too_early == 1


def test_the_first_copy_of_a_train_that_was_sent_again_while_it_was_on_its_way_is_not_too_early() -> None:
    again = trace.Resent(t=2.0, device="a", ticket=1)
    assert gather([dispatched(at=1.0), again, downloaded(sent=1.0)]).too_early == 0
    assert gather([dispatched(at=1.0), again, downloaded(sent=0.5)]).too_early == 1


def test_a_lost_download_may_be_reported_after_it_was_sent_again() -> None:
    """By a member of a cluster, after its head reported that it sent the model again."""
    again = trace.Resent(t=2.0, device="a", ticket=1)
    lost = downloaded(sent=1.0, dropped=True)
    assert gather([dispatched(at=1.0), again, lost, downloaded(sent=2.0)]).too_early == 0
    assert gather([dispatched(at=1.0), again, downloaded(sent=0.5, dropped=True)]).too_early == 1


@pytest.mark.parametrize("make", [arrived, downloaded])
def test_tickets_of_one_direction_of_a_device_only_grow(make: Any) -> None:
    assert gather([make(1), make(2), make(4), make(3, device="b")]).out_of_order == 0
    assert gather([make(2), make(1)]).out_of_order == 1


def test_the_two_directions_of_a_link_do_not_wait_for_each_other() -> None:
    assert gather([downloaded(2), arrived(1)]).out_of_order == 0


def accounts(*events: Event) -> tuple[int, dict[str, int], int]:
    found = gather(events)
    return found.dispatched, dict(found.settled), found.settled_twice


def test_every_end_of_a_ticket_is_counted() -> None:
    settled = (
        aggregated(1, 2),
        trace.Rejected(t=1.0, device="a", ticket=3, reason="zero"),
        trace.Lost(t=1.0, device="a", ticket=4, reason="gave up"),
        trace.Superseded(t=1.0, device="a", ticket=5),
        trace.Delivered(t=1.0, device="a", ticket=6),
    )
    expected = {"applied": 2, "rejected": 1, "lost": 1, "superseded": 1, "delivered": 1}
    assert accounts(*(dispatched(ticket) for ticket in range(1, 8)), *settled) == (7, expected, 0)


def test_an_update_that_is_used_again_does_not_end_again() -> None:
    assert accounts(dispatched(1), dispatched(2), aggregated(1), aggregated(2, 1, fresh=1)) == (2, {"applied": 2}, 0)


@pytest.mark.parametrize(
    "extra",
    [
        trace.Lost(t=1.0, device="a", ticket=1, reason="gave up"),
        trace.Rejected(t=1.0, device="a", ticket=99, reason="unknown"),
        aggregated(1),
        aggregated(99),
    ],
)
def test_a_ticket_that_ends_twice_or_was_never_dispatched_is_noticed(extra: Event) -> None:
    assert accounts(dispatched(1), aggregated(1), extra)[2] == 1


def test_one_of_each_event_can_be_gathered() -> None:
    found = gather(EVENTS)
    assert found.header is EVENTS[0]
    assert found.stopped is EVENTS[-1]
    assert (found.load.span > 0, [sums.samples for sums in found.canaries.values()]) == (True, [1])


def test_nothing_is_gathered_from_nothing() -> None:
    assert gather([]) == Evidence()


def test_a_round_trip_of_a_device_that_waited_for_a_grant_is_not_late() -> None:
    """It computed until 1.25, waited 3 s for its grant, and arrived half a second later."""
    waiting = uploaded(sent=DOWN + COMPUTE + 3.0, waited=3.0)
    due = DOWN + COMPUTE + 3.0 + UP
    found = gather([header(), dispatched(), downloaded(), trained(), waiting, arrived(t=due, due=due, handled=due)])
    assert trips(found.computed["a"]) == (1, due, due)


def test_work_repeated_in_a_resumed_run_is_counted_once() -> None:
    resumed = trace.Resumed(t=2.0, version=0, undone=3, dilation=2.0, started="")
    again = trace.Resent(t=2.0, device="a", ticket=1)
    first = [dispatched(), downloaded(), trained(), uploaded()]  # the run was interrupted during this upload
    second = [downloaded(sent=2.0), trained(end=3.25), uploaded(sent=3.25), arrived(at=3.75)]
    events = [header(), *first, resumed, again, *second]
    found = gather(events)
    assert found.bytes_wrong == 0
    assert found.too_early == 0
    assert [each.sent for each in deliveries(events) if each.up] == [3.25]
