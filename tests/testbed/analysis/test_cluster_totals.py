"""Totals of runs with cluster heads: tickets of heads count like all others."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from testbed.analysis import run_tables, trace_reading
from testbed.analysis.totals import totals
from testbed.fidelity.evidence import gather
from testbed.fidelity.measurements import Delivery
from testbed.history import trace
from testbed.replay import recording
from testbed.wire.ticket_ranges import CLUSTER_JOBS, first_ticket
from tests.testbed.analysis import histories
from tests.testbed.runs.test_tensorboard import HEADER

OWN = first_ticket(2) + 1
LEAD = 7


def arrived(ticket: int, device: str, t: float, staleness: int = 0) -> trace.Arrived:
    return trace.Arrived(
        t=t,
        device=device,
        ticket=ticket,
        due=t,
        received=t,
        handled=t,
        bytes=400,
        version=0,
        staleness=staleness,
        loss=0.5,
    )


def moved(kind: type[trace.TransferEvent], ticket: int, device: str, job: int, sent: float) -> trace.TransferEvent:
    return kind(
        t=sent + 0.5,
        device=device,
        ticket=ticket,
        job=job,
        attempt=0,
        sent=sent,
        asked=0.5,
        obtained=0.5,
        bytes=400,
        dropped=False,
    )


def sent(ticket: int, device: str, t: float, *, for_cluster: bool = False) -> trace.Dispatched:
    return trace.Dispatched(t=t, device=device, ticket=ticket, version=0, steps=4, for_cluster=for_cluster)


EVENTS: list[trace.Event] = [
    HEADER,
    histories.joined("h"),
    histories.joined("m"),
    trace.Clustered(t=1.0, version=0, clusters=[["h", "m"]], purity=1.0),
    trace.Grouped(t=1.0, cluster=0, ticket_range=2, head="h", members=["h", "m"], quorum=2),
    sent(LEAD, "h", 1.0, for_cluster=True),
    moved(trace.Downloaded, LEAD, "h", CLUSTER_JOBS, 1.0),
    sent(OWN, "h", 1.5),
    sent(OWN + 1, "m", 1.5),
    arrived(OWN, "h", 3.0),
    moved(trace.Downloaded, OWN + 1, "m", 0, 1.5),
    moved(trace.Uploaded, OWN + 1, "m", 0, 3.5),
    arrived(LEAD, "h", 4.5),
    trace.Aggregated(t=4.5, version=1, tickets=[LEAD], weights=[0.5], staleness=[0]),
    trace.Merged(t=4.5, device="h", ticket=LEAD, tickets=[OWN, OWN + 1], weights=[0.25, 0.75], staleness=[0, 2]),
    arrived(OWN + 1, "m", 4.0, staleness=2),  # what heads tell comes late
    moved(trace.Uploaded, LEAD, "h", CLUSTER_JOBS, 4.0),
    sent(OWN + 2, "m", 4.25),
    trace.Lost(t=5.0, device="m", ticket=OWN + 2, reason="its head has gone"),
    histories.stopped(8.0),
]


def test_updates_merged_by_a_head_are_applied_with_their_weight_in_the_version() -> None:
    total = totals(EVENTS)
    assert (total.dispatched, total.applied, total.lost, total.in_flight) == (4, 3, 1, 0)
    head, member = total.devices["h"], total.devices["m"]
    assert (head.weight, member.weight) == (0.125, 0.375)
    assert (head.applied, member.applied, member.lost) == (2, 1, 1)
    assert (head.jobs, member.jobs) == (1, 2)  # a model for the cluster is no job
    assert (head.staleness, member.staleness) == (0, 2)
    assert [staleness for _, staleness in total.made.staleness] == [0, 2]


def test_updates_that_reached_the_aggregator_itself_are_counted_by_device() -> None:
    rows = {row.device: row.to_aggregator for row in run_tables.device_rows(totals(EVENTS))}
    assert rows == {"h": 1, "m": 0}


def test_the_certificate_counts_every_ticket_once_and_does_not_judge_a_head_by_its_cluster() -> None:
    found = gather(EVENTS)
    assert (found.dispatched, dict(found.settled), found.settled_twice) == (4, {"applied": 3, "lost": 1}, 0)
    assert (found.out_of_order, found.bytes_wrong) == (0, 0)
    assert math.isfinite(found.computed["m"].trips_asked)
    assert found.computed["h"].trips == 0


SIGNAL = LEAD + 1
CARRIED: list[trace.Event] = [
    *EVENTS[:9],
    moved(trace.Downloaded, OWN + 1, "m", 0, 1.5),
    arrived(OWN + 1, "m", 4.0),
    trace.Dispatched(t=5.0, device="m", ticket=SIGNAL, version=1, steps=0, gradient=True),
    arrived(SIGNAL, "m", 5.5, staleness=1),
    trace.Rejected(t=5.5, device="m", ticket=SIGNAL, reason="for clusters"),
    trace.Clustered(t=5.5, version=1, clusters=[["h", "m"]], purity=1.0),
    trace.Grouped(t=5.5, cluster=0, ticket_range=4, head="h", members=["h", "m"], quorum=1),
    arrived(OWN + 1, "m", 6.0, staleness=1),
    moved(trace.Uploaded, OWN + 1, "m", 0, 3.5),
    moved(trace.Uploaded, SIGNAL, "m", CLUSTER_JOBS, 5.0),
    replace(moved(trace.Uploaded, OWN + 1, "m", 0, 5.5), attempt=1),
    histories.stopped(8.0),
]
"""The update of m waits at its head; m sends it as its gradient, and uploads it to its next head."""


def test_an_update_that_is_uploaded_to_two_heads_arrives_twice_in_time_and_is_no_round_trip() -> None:
    deliveries: list[Delivery] = []
    found = gather(CARRIED, deliveries.append)
    uploads = [(each.job, each.attempt, each.arrived) for each in deliveries if each.up]
    assert uploads == [(0, 0, 4.0), (CLUSTER_JOBS, 0, 5.5), (0, 1, 6.0)]
    assert (found.bytes_wrong, found.out_of_order, found.too_early) == (0, 0, 0)
    assert (found.computed["m"].trips, found.settled_twice) == (0, 0)


def test_a_carried_update_that_waits_for_the_first_model_of_its_head_is_not_missing() -> None:
    events = [event for event in CARRIED if not (isinstance(event, trace.Arrived) and event.t == 6.0)]
    assert gather(events).bytes_wrong == 0


def test_a_gradient_is_no_job_and_counts_at_the_aggregator() -> None:
    total = totals(CARRIED)
    assert (total.devices["m"].jobs, total.rejected, total.final_sent) == (1, 1, {})
    assert {row.device: row.to_aggregator for row in run_tables.device_rows(total)} == {"h": 0, "m": 1}
    assert set(recording.gather(CARRIED, use="asked")["m"]) == {0}


def test_a_recording_contains_jobs_and_no_models_for_clusters() -> None:
    jobs = recording.gather(EVENTS, use="asked")
    assert set(jobs) == {"m"}
    assert set(jobs["m"]) == {0}


@pytest.mark.parametrize("ticket_range", [2, 3])
def test_only_reports_of_heads_may_come_late(tmp_path: Path, ticket_range: int) -> None:
    path = tmp_path / "trace.jsonl"
    writer = trace.TraceWriter(path)
    for event in EVENTS:
        writer.write(
            trace.Grouped(t=1.0, cluster=0, ticket_range=ticket_range, head="h", members=["h"], quorum=1)
            if isinstance(event, trace.Grouped)
            else event
        )
    writer.close()
    if ticket_range == 2:
        assert len(list(trace_reading.events(path))) == len(EVENTS)
    else:
        with pytest.raises(Exception, match="times run backwards"):
            list(trace_reading.events(path))
