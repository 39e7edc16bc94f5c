"""Delays by equation (1), worked out by hand."""

from __future__ import annotations

import pytest

from testbed.history.trace import Aggregated, Arrived, Dispatched, Event, Joined, Left, TraceError
from testbed.theory.iterations import iterations


def joined(device: str, samples: int) -> Joined:
    return Joined(t=0.0, device=device, pid=11, cores=[1], samples=samples)


def sent(device: str, ticket: int, version: int) -> Dispatched:
    return Dispatched(t=0.0, device=device, ticket=ticket, version=version, steps=1)


def came(device: str, ticket: int, version: int) -> Arrived:
    return Arrived(
        t=0.0,
        device=device,
        ticket=ticket,
        due=0.0,
        received=0.0,
        handled=0.0,
        bytes=4,
        version=version,
        staleness=0,
        loss=1.0,
    )


def made(version: int, *tickets: int) -> Aggregated:
    return Aggregated(t=0.0, version=version, tickets=list(tickets), weights=[1.0] * len(tickets), staleness=[])


EVENTS: list[Event] = [
    joined("a", 100),
    joined("b", 200),
    joined("c", 100),
    sent("a", 1, 0),
    sent("b", 2, 0),
    sent("c", 3, 0),
    came("a", 1, 0),
    made(1, 1),  # I_1 = {a}
    sent("a", 4, 1),
    made(2),  # I_2 is empty
    came("b", 2, 0),
    made(3, 2),  # I_3 = {b}, 3 − 1 = 2
    sent("b", 5, 3),
    came("a", 4, 1),
    made(4, 4, 2),  # I_4 = {a}: ticket 2 is used again. 4 − 2 = 2
    sent("a", 6, 4),
    came("a", 6, 1),  # its download of version 4 had failed: it has trained on version 1 again
    made(5, 6, 2),  # I_5 = {a}. It would be 0, since a ∈ I_4; adjusted to 5 − 2 = 3
    sent("a", 7, 5),
    came("b", 5, 3),
    made(6, 5, 6),  # I_6 = {b}, 6 − 4 = 2
    sent("b", 8, 6),
]
"""Six iterations of three devices, of which c is never heard."""

TAU = {"a": (0, 0, 1, 2, 3, 0), "b": (0, 1, 2, 0, 1, 2), "c": (0, 1, 2, 3, 4, 5)}


def tau(events: list[Event]) -> dict[str, tuple[int, ...]]:
    return {name: delays.tau for name, delays in iterations(events).devices.items()}


def test_every_delay_follows_equation_1() -> None:
    assert tau(EVENTS) == TAU


def test_only_a_ticket_that_is_used_for_the_first_time_is_heard() -> None:
    seen = iterations(EVENTS)
    assert seen.heard == (1, 0, 1, 1, 1, 1)
    assert {name: delays.heard for name, delays in seen.devices.items()} == {"a": 3, "b": 2, "c": 0}


def test_moments_are_means_over_all_iterations() -> None:
    devices = iterations(EVENTS).devices
    assert [devices["a"].moment(k) for k in (1, 2, 3)] == [6 / 6, 14 / 6, 36 / 6]
    assert [devices["b"].moment(k) for k in (1, 2, 3)] == [6 / 6, 10 / 6, 18 / 6]
    assert [devices["c"].moment(k) for k in (1, 2, 3)] == [15 / 6, 55 / 6, 225 / 6]


def test_no_device_is_late_if_all_are_heard_in_every_iteration() -> None:
    events: list[Event] = [joined("a", 1), joined("b", 1)]
    for t in range(1, 4):
        events += [sent("a", 2 * t, t - 1), sent("b", 2 * t + 1, t - 1), made(t, 2 * t, 2 * t + 1)]
    assert tau(events) == {"a": (0, 0, 0), "b": (0, 0, 0)}
    assert iterations(events).heard == (2, 2, 2)


def test_the_delay_of_a_device_that_joins_late_counts_from_the_start_of_the_run() -> None:
    events = [joined("a", 1), made(1), made(2), joined("late", 1), sent("late", 1, 2), made(3), made(4, 1), made(5)]
    # heard in iteration 4 with w^3: 4 − 3 = 1, although 3 iterations without it have passed
    assert tau(events)["late"] == (0, 1, 2, 1, 0)


def test_the_delay_of_a_device_that_has_left_grows() -> None:
    events = [joined("a", 1), sent("a", 1, 0), made(1, 1), Left(t=1.0, device="a", reason="silent"), made(2), made(3)]
    assert tau(events) == {"a": (0, 0, 1)}


def test_a_device_that_rejoins_is_one_device_with_its_present_samples() -> None:
    seen = iterations([joined("a", 1), made(1), joined("a", 5), made(2)])
    assert {name: (delays.samples, delays.tau) for name, delays in seen.devices.items()} == {"a": (5, (0, 1))}


def test_a_device_with_two_updates_in_one_iteration_counts_once_with_the_freshest() -> None:
    events = [joined("a", 1), sent("a", 1, 0), made(1), made(2), sent("a", 2, 2), made(3), made(4, 2, 1)]
    seen = iterations(events)
    assert seen.heard == (0, 0, 0, 1)
    assert seen.devices["a"].tau == (0, 1, 2, 1)  # 4 − 3, and not 4 − 1


def test_the_dispatched_version_is_used_where_no_arrival_is_known() -> None:
    assert tau([joined("a", 1), made(1), sent("a", 1, 1), made(2), made(3, 1)])["a"][-1] == 3 - 2


def test_a_version_with_an_unknown_ticket_is_refused() -> None:
    with pytest.raises(TraceError, match="version 1 uses ticket 7, which was never dispatched"):
        iterations([joined("a", 1), made(1, 7)])


def test_a_run_without_a_version_has_no_iterations() -> None:
    assert iterations([joined("a", 1)]).heard == ()
