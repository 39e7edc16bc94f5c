"""EAFL with heads that are devices: they die, are suspended and return at any moment, and the run continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies.eafl.eafl import EAFL
from testbed.history import trace
from tests.aggregator.imaginary import TRANSPORT_SECONDS, ImaginaryDevice
from tests.aggregator.imaginary_clusters import ClusteredFleet
from tests.aggregator.strategies.by_hand import vector
from tests.properties import examples

NAMES = ("a", "b", "c", "d", "e", "f")
PATIENCE = 6.0
MOMENTS = 15.0


def fleet_of(clusters: int = 2, trouble: bool = False, **parameters: object) -> ClusteredFleet:
    """Two groups of three devices with different optima."""
    devices = [
        ImaginaryDevice(
            name=name,
            optimum=vector(6.0, 8.0 * (-1) ** number, 1.0),
            samples=10 + number,
            seconds_per_step=0.05 * (1 + number),
            lost_downloads=range(3, 90, 7) if trouble else (),
            given_up=range(4, 90, 9) if trouble else (),
        )
        for number, name in enumerate(NAMES)
    ]
    strategy = EAFL(**{"clusters": clusters, "every": 6, "phi": 0.6, "patience": PATIENCE} | parameters)  # type: ignore[arg-type]
    return ClusteredFleet(strategy, devices)


def check_accounts(events: list[trace.Event]) -> Counter[str]:
    """Check that no ticket ends twice or without a dispatch. Return how many ended in which way."""
    in_flight: set[int] = set()
    counts: Counter[str] = Counter()
    for event in events:
        if isinstance(event, trace.Dispatched):
            assert event.ticket not in in_flight
            in_flight.add(event.ticket)
            counts["dispatched"] += 1
        elif isinstance(event, (trace.Aggregated, trace.Merged)):
            assert in_flight.issuperset(event.tickets)
            in_flight.difference_update(event.tickets)
            counts["applied"] += len(event.tickets)
        elif isinstance(event, (trace.Rejected, trace.Lost, trace.Superseded)):
            in_flight.remove(event.ticket)
            counts[type(event).__name__.lower()] += 1
    counts["in_flight"] = len(in_flight)
    return counts


def of_kind(fleet: ClusteredFleet, kind: type) -> list[trace.Event]:  # type: ignore[type-arg]
    return [event for event in fleet.trace if isinstance(event, kind)]


def head(fleet: ClusteredFleet) -> str:
    return next(event.head for event in reversed(fleet.trace) if isinstance(event, trace.Grouped))


def test_devices_with_the_same_optimum_are_in_one_cluster() -> None:
    fleet = fleet_of()
    fleet.run(until=20.0)
    found = [event.clusters for event in fleet.trace if isinstance(event, trace.Clustered)]
    assert found[0] == [["a", "c", "e"], ["b", "d", "f"]]
    assert len(found) >= 2


def test_it_learns_from_all_members_although_only_heads_send_to_the_aggregator() -> None:
    fleet = fleet_of(phi=1.0)
    before = fleet.distance()
    fleet.run(until=60.0)
    assert fleet.distance() < 0.2 * before
    merged = Counter(ticket for event in of_kind(fleet, trace.Merged) for ticket in event.tickets)  # type: ignore[attr-defined]
    assert max(merged.values()) == 1
    dispatched = {event.ticket: event for event in of_kind(fleet, trace.Dispatched)}  # type: ignore[attr-defined]
    assert {dispatched[ticket].device for ticket in merged} == set(NAMES)  # type: ignore[attr-defined]


@pytest.mark.parametrize("fresh", [False, True])
def test_with_lost_messages_the_accounts_balance_and_the_numbers_of_jobs_continue(fresh: bool) -> None:
    fleet = fleet_of(trouble=True, fresh=fresh)
    fleet.run(until=90.0)
    counts = check_accounts(fleet.trace)
    assert counts["lost"] > 0
    assert fleet.engine.version > 10
    assert counts["in_flight"] == fleet.engine.in_flight + fleet.engine.head_ledgers.in_flight
    reasons = Counter(event.reason for event in of_kind(fleet, trace.Lost))  # type: ignore[attr-defined]
    assert reasons["its head's upload was given up"] > 0
    jobs = Counter(
        event.device
        for event in fleet.trace
        if isinstance(event, trace.Dispatched) and not event.for_cluster and not event.gradient
    )
    assert {name: fleet.engine.jobs_of(name) for name in NAMES} == dict(jobs)


@pytest.mark.parametrize("fate", [ClusteredFleet.kill, ClusteredFleet.suspend])
def test_a_head_that_dies_or_is_suspended_is_replaced_in_time_and_its_members_continue(
    fate: Callable[[ClusteredFleet, str], None],
) -> None:
    fleet = fleet_of(every=1000)
    fleet.run(until=8.0)
    victim, moment, version = head(fleet), 8.0, fleet.engine.version
    fate(fleet, victim)
    fleet.run(until=60.0)
    first = next(event for event in fleet.trace if isinstance(event, trace.Grouped) and event.t >= moment)
    assert first.head != victim
    assert first.t - moment <= PATIENCE
    assert fleet.engine.version > version + 5
    reasons = {event.reason for event in fleet.trace if isinstance(event, trace.Lost)}
    assert reasons & {"its head has gone", "its head was replaced"}
    check_accounts(fleet.trace)


def test_without_dsa_no_cluster_waits_for_another() -> None:
    fleet = fleet_of(dsa=False, every=1000)
    fleet.run(until=30.0)
    made = [event for event in fleet.trace if isinstance(event, trace.Aggregated)]
    assert {len(event.tickets) for event in made} == {1}
    assert max(max(event.staleness) for event in made) > 0
    assert all(sum(event.weights) < 1 for event in made)  # type: ignore[arg-type]


def test_at_a_clustering_no_job_is_cut_off_and_updates_keep_their_staleness() -> None:
    fleet = fleet_of(phi=0.3)
    fleet.run(until=60.0)
    clusterings = [event.t for event in fleet.trace if isinstance(event, trace.Clustered)]
    assert len(clusterings) >= 3
    assert not of_kind(fleet, trace.Superseded)
    dispatched = {event.ticket: event for event in fleet.trace if isinstance(event, trace.Dispatched)}
    trained = [event for event in dispatched.values() if event.steps and not event.for_cluster]
    assert not [event for event in trained if event.t in clusterings[1:]]  # nobody trains for a later clustering
    # an update that was begun before a clustering is merged after it, by another head, with the age of its model
    merged = [event for event in fleet.trace if isinstance(event, trace.Merged)]
    over = [
        (ticket, staleness, event)
        for event in merged
        for ticket, staleness in zip(event.tickets, event.staleness, strict=True)
        if any(dispatched[ticket].t < moment < event.t for moment in clusterings)
    ]
    assert over
    made = {event.t: event.version for event in fleet.trace if isinstance(event, trace.Aggregated)}
    for ticket, staleness, event in over:
        assert staleness == made[event.t] - 1 - dispatched[ticket].version > 0


def test_the_gradients_of_a_later_clustering_have_different_bases() -> None:
    fleet = fleet_of(phi=0.3)
    fleet.run(until=60.0)
    asked = {event.ticket for event in fleet.trace if isinstance(event, trace.Dispatched) and event.gradient}
    gradients = [event for event in fleet.trace if isinstance(event, trace.Arrived) and event.ticket in asked]
    assert {event.device for event in gradients} == set(NAMES)
    assert len({event.staleness for event in gradients}) > 1
    assert {event.reason for event in fleet.trace if isinstance(event, trace.Rejected)} == {
        "it was for the clustering only"
    }


def test_a_clustering_costs_an_upload_and_with_fresh_gradients_a_job_of_the_slowest_device() -> None:
    def seconds(fresh: bool) -> float:
        """Return the time from the signal of the second clustering to its result."""
        fleet = fleet_of(phi=0.3, fresh=fresh)
        fleet.run(until=40.0)
        result = [event.t for event in fleet.trace if isinstance(event, trace.Clustered)][1]
        version = max(event.t for event in fleet.trace if isinstance(event, trace.Aggregated) and event.t < result)
        return result - version

    slowest = 5 * 0.05 * len(NAMES)
    assert seconds(fresh=False) == pytest.approx(TRANSPORT_SECONDS + 0.1)
    assert seconds(fresh=True) == pytest.approx(TRANSPORT_SECONDS + 0.1 + slowest + 0.1)


def test_two_equal_runs_have_equal_traces() -> None:
    first, second = fleet_of(trouble=True), fleet_of(trouble=True)
    first.run(until=40.0)
    second.run(until=40.0)
    assert first.trace == second.trace
    np.testing.assert_array_equal(first.engine.model, second.engine.model)


INCIDENTS = (
    ClusteredFleet.kill,
    ClusteredFleet.restart,
    ClusteredFleet.silence,
    ClusteredFleet.suspend,
    ClusteredFleet.resume,
)
incidents = st.lists(
    st.tuples(st.floats(0.0, MOMENTS), st.sampled_from(INCIDENTS), st.sampled_from((*NAMES, "the head"))), max_size=25
)


@examples(100)
@given(
    clusters=st.integers(1, 4),
    every=st.sampled_from((2, 9, 1000)),
    fresh=st.booleans(),
    dsa=st.booleans(),
    patience=st.sampled_from((0.7, PATIENCE)),
    incidents=incidents,
)
def test_after_deaths_and_suspensions_at_any_moment_the_run_continues_and_the_accounts_balance(
    clusters: int,
    every: int,
    fresh: bool,
    dsa: bool,
    patience: float,
    incidents: list[tuple[float, Callable[[ClusteredFleet, str], None], str]],
) -> None:
    fleet = fleet_of(clusters, trouble=True, every=every, fresh=fresh, dsa=dsa, patience=patience)

    def strike(fate: Callable[[ClusteredFleet, str], None], name: str) -> None:
        groups = any(isinstance(event, trace.Grouped) for event in fleet.trace)
        victim = (head(fleet) if groups else NAMES[0]) if name == "the head" else name
        fate(fleet, victim)

    for moment, fate, name in incidents:
        fleet.at(moment, lambda name, fate=fate: strike(fate, name), name)  # type: ignore[misc]
    fleet.run(until=MOMENTS)
    for name in NAMES:
        fleet.resume(name)
    if not fleet.engine.devices:
        fleet.restart(NAMES[0])
    version = fleet.engine.version
    fleet.run(until=MOMENTS + 8 * PATIENCE)
    assert fleet.engine.version > version
    counts = check_accounts(fleet.trace)
    assert counts["in_flight"] == fleet.engine.in_flight + fleet.engine.head_ledgers.in_flight
