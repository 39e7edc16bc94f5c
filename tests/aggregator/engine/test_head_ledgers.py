"""The ledgers of cluster heads: each ticket ends once, and no device reports on the cluster of another head."""

from __future__ import annotations

from typing import Any

import pytest

from aggregator.engine.head_ledgers import HeadLedgers
from aggregator.engine.tickets import Tally
from testbed.history import trace
from testbed.wire.messages import Update
from testbed.wire.ticket_ranges import first_ticket
from tests.aggregator.strategies.by_hand import vector


class Kept:
    """A cluster with head h and members h and m."""

    def __init__(self) -> None:
        self.events: list[trace.Event] = []
        self.jobs: list[str] = []
        self.head_ledgers = HeadLedgers(self.events.append, self.jobs.append)
        self.ticket_range = self.head_ledgers.open(0, "h", ["h", "m"], 0.0)
        self.first = first_ticket(self.ticket_range) + 1

    def report(self, *events: trace.HeadEvent, device: str = "h", ticket_range: int | None = None) -> None:
        self.head_ledgers.enter(device, self.ticket_range if ticket_range is None else ticket_range, events)

    def bring(self, for_cluster: int, *tickets: int) -> None:
        self.head_ledgers.bring(result(for_cluster, *tickets))

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def result(for_cluster: int, *tickets: int, device: str = "h") -> Update:
    return Update(
        device=device,
        ticket=for_cluster,
        version=0,
        delta=vector(1.0),
        samples=1,
        steps=1,
        started=0,
        finished=0,
        due=0,
        loss=None,
        merged=tuple((ticket, 0.5, 1) for ticket in tickets),
    )


def sent(ticket: int, device: str = "m", steps: int = 4, for_cluster: bool = False) -> trace.Dispatched:
    return trace.Dispatched(t=1.0, device=device, ticket=ticket, version=0, steps=steps, for_cluster=for_cluster)


def came(ticket: int, device: str = "m") -> trace.Arrived:
    return trace.Arrived(
        t=2.0,
        device=device,
        ticket=ticket,
        version=0,
        staleness=0,
        loss=None,
        due=2.0,
        bytes=4,
        received=2.0,
        handled=2.0,
        started=1.0,
        finished=2.0,
    )


def lost(ticket: int, device: str = "m") -> trace.Lost:
    return trace.Lost(t=2.0, device=device, ticket=ticket, reason="gave up")


def test_the_events_of_a_head_report_are_recorded_and_its_jobs_are_counted() -> None:
    kept = Kept()
    kept.report(sent(kept.first), sent(kept.first + 1, "h"), lost(kept.first))
    assert (kept.kinds(), kept.jobs, kept.head_ledgers.in_flight) == (
        ["Dispatched", "Dispatched", "Lost"],
        ["m", "h"],
        1,
    )


def test_models_and_changes_of_members_are_recorded_and_change_no_account() -> None:
    heads = Kept()
    adopted = trace.Adopted(t=1.0, device="h", ticket=3, due=1.0)
    regrouped = trace.Regrouped(t=1.0, device="h", ticket_range=heads.ticket_range)
    paused = trace.Paused(t=1.0, device="h", ticket_range=heads.ticket_range)
    heads.report(adopted, regrouped, paused)
    assert heads.events == [adopted, regrouped, paused]
    assert (heads.jobs, heads.head_ledgers.in_flight, heads.head_ledgers.tally.dispatched) == ([], 0, 0)


@pytest.mark.parametrize(
    "forged",
    [
        trace.Adopted(t=1.0, device="m", ticket=3, due=1.0),
        trace.Regrouped(t=1.0, device="m", ticket_range=1),
        trace.Regrouped(t=1.0, device="h", ticket_range=7),
        trace.Paused(t=1.0, device="m", ticket_range=1),
        trace.Carried(t=1.0, device="m", ticket=3),
    ],
)
def test_only_the_head_itself_reports_its_models_and_members(forged: trace.HeadEvent) -> None:
    heads = Kept()
    with pytest.raises(trace.TraceError, match="another cluster"):
        heads.report(forged)
    assert heads.events == []


def test_an_arrival_may_be_reported_with_its_job_or_later() -> None:
    kept = Kept()
    kept.report(sent(kept.first), came(kept.first), sent(kept.first + 1))
    kept.report(trace.Resent(t=1.0, device="m", ticket=kept.first + 1), came(kept.first + 1))
    assert kept.kinds() == ["Dispatched", "Arrived", "Dispatched", "Resent", "Arrived"]


def test_an_event_that_is_reported_twice_counts_once() -> None:
    kept = Kept()
    kept.report(sent(kept.first), sent(kept.first), lost(kept.first), lost(kept.first), sent(kept.first))
    assert (kept.kinds(), kept.jobs, kept.head_ledgers.in_flight) == (["Dispatched", "Lost"], ["m"], 0)


def test_merged_tickets_end_together_with_the_ticket_of_the_head() -> None:
    kept = Kept()
    kept.report(sent(kept.first), sent(kept.first + 1), sent(kept.first + 2))
    kept.bring(7, kept.first, kept.first + 1)
    kept.bring(8, kept.first, kept.first + 2)  # the first was merged before
    assert kept.head_ledgers.in_flight == 3
    kept.head_ledgers.settle(7, 3.0, applied=True)
    kept.head_ledgers.settle(8, 4.0, applied=False)
    merged, gone = kept.events[-2:]
    assert isinstance(merged, trace.Merged)
    assert (merged.ticket, merged.tickets, merged.staleness) == (7, [kept.first, kept.first + 1], [1, 1])
    assert isinstance(gone, trace.Lost)
    assert (gone.ticket, gone.reason) == (kept.first + 2, "the result of its head was not used")
    assert kept.head_ledgers.in_flight == 0


@pytest.mark.parametrize(
    ("ends", "fate"),
    [
        (lambda head_ledgers: head_ledgers.close_of("h", 5.0), "its head has gone"),
        (lambda head_ledgers: head_ledgers.open(0, "m", ["h", "m"], 5.0), "its head was replaced"),
        (lambda head_ledgers: head_ledgers.close_all(5.0), None),
    ],
)
def test_open_tickets_end_when_their_ledger_is_closed_and_later_reports_are_ignored(
    ends: Any, fate: str | None
) -> None:
    kept = Kept()
    kept.report(sent(kept.first), sent(kept.first + 1))
    kept.bring(7, kept.first + 1)
    ends(kept.head_ledgers)
    [last] = kept.events[2:]
    assert last.ticket == kept.first  # type: ignore[attr-defined]
    assert getattr(last, "reason", None) == fate
    kept.report(lost(kept.first), sent(kept.first + 2))
    assert len(kept.events) == 3
    kept.head_ledgers.settle(7, 6.0, applied=True)  # a result that had arrived is used
    assert kept.kinds()[-1] == "Merged"
    assert kept.head_ledgers.in_flight == 0


def test_tickets_merged_in_an_ignored_update_are_lost_but_not_those_of_an_earlier_one() -> None:
    kept = Kept()
    kept.report(sent(kept.first), sent(kept.first + 1), sent(kept.first + 2))
    kept.bring(7, kept.first)
    kept.head_ledgers.lose_merged(result(7, kept.first, kept.first + 1), 3.0)
    kept.head_ledgers.lose_merged(result(8, kept.first + 2, device="m"), 3.0)  # m is no head
    assert [event.ticket for event in kept.events if isinstance(event, trace.Lost)] == [kept.first + 1]
    kept.head_ledgers.settle(7, 4.0, applied=True)
    assert kept.kinds()[-1] == "Merged"
    assert kept.head_ledgers.in_flight == 1


def test_the_tickets_of_heads_are_counted() -> None:
    kept = Kept()
    kept.report(*(sent(kept.first + number) for number in range(5)), lost(kept.first))
    kept.report(trace.Rejected(t=2.0, device="m", ticket=kept.first + 1, reason="bad"))
    kept.bring(7, kept.first + 2, kept.first + 3)
    kept.head_ledgers.settle(7, 3.0, applied=True)
    kept.head_ledgers.close_all(4.0)
    assert kept.head_ledgers.tally == Tally(dispatched=5, applied=2, rejected=1, lost=1, superseded=1)


def test_with_the_same_head_the_ticket_range_stays_and_another_head_has_a_later_one() -> None:
    kept = Kept()
    assert kept.head_ledgers.open(0, "h", ["h", "m", "n"], 1.0) == kept.ticket_range
    assert kept.head_ledgers.open(0, "n", ["m", "n"], 1.0) > kept.ticket_range
    assert kept.head_ledgers.close_all(2.0) > kept.ticket_range + 1


def test_the_last_open_ticket_of_each_present_device_moves_to_the_ledger_of_its_next_head() -> None:
    kept = Kept()
    kept.head_ledgers.open(1, "n", ["n", "o"], 0.0)
    first = first_ticket(kept.ticket_range + 1) + 1
    kept.report(*(sent(kept.first + number, name) for number, name in enumerate(("h", "m", "m"))))
    kept.report(sent(first, "o"), sent(first + 1, "n"), device="n", ticket_range=kept.ticket_range + 1)
    kept.head_ledgers.close_all(4.0, carried_by={"h", "m", "n"})
    ended = [(event.ticket, event.device) for event in kept.events if isinstance(event, trace.Superseded)]
    assert ended == [(kept.first + 1, "m"), (first, "o")]  # m has a later one, and o has gone
    ticket_range = kept.head_ledgers.open(0, "m", ["m", "n"], 4.0)
    kept.head_ledgers.open(1, "h", ["h"], 4.0)
    assert kept.head_ledgers.carried_in(0) == (("m", kept.first + 2), ("n", first + 1))
    assert (kept.head_ledgers.carried_in(1), kept.head_ledgers.in_flight) == ((("h", kept.first),), 3)
    # the new head reports how they end; they count as dispatched once
    kept.report(came(first + 1, "n"), lost(kept.first + 2), device="m", ticket_range=ticket_range)
    assert kept.kinds()[-2:] == ["Arrived", "Lost"]
    assert kept.head_ledgers.carried_in(0) == (("n", first + 1),)
    kept.head_ledgers.bring(result(7, first + 1, device="m"))
    kept.head_ledgers.settle(7, 5.0, applied=True)
    assert kept.head_ledgers.tally == Tally(dispatched=5, applied=1, lost=1, superseded=2)
    assert len(kept.jobs) == 5


def test_a_result_from_before_a_clustering_does_not_end_the_tickets_that_are_carried() -> None:
    kept = Kept()
    kept.report(sent(kept.first, "h"))
    own = kept.head_ledgers.close_all(4.0, carried_by={"h"})
    kept.head_ledgers.open(0, "h", ["h"], 4.0)
    kept.head_ledgers.lose_merged(result(7, kept.first), 4.5)
    assert kept.head_ledgers.carried_in(0) == (("h", kept.first),)
    kept.head_ledgers.lose_merged(result(first_ticket(own) + 1, kept.first), 5.0)
    assert (kept.kinds()[-1], kept.head_ledgers.in_flight) == ("Lost", 0)


def test_a_head_cannot_give_out_a_carried_ticket() -> None:
    kept = Kept()
    kept.report(sent(kept.first))
    kept.head_ledgers.close_all(4.0, carried_by={"m"})
    ticket_range = kept.head_ledgers.open(0, "m", ["m"], 4.0)
    with pytest.raises(trace.TraceError, match="does not give out"):
        kept.report(sent(kept.first), device="m", ticket_range=ticket_range)


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        (lambda kept: kept.report(sent(kept.first), device="m"), "does not head"),
        (lambda kept: kept.report(sent(kept.first), ticket_range=kept.ticket_range + 1), "does not head"),
        (lambda kept: kept.report(sent(1), ticket_range=0), "does not head"),
        (lambda kept: kept.report(sent(1)), "of another cluster"),
        (lambda kept: kept.report(sent(kept.first, "x")), "of another cluster"),
        (lambda kept: kept.report(sent(kept.first), sent(kept.first + 1, "x")), "of another cluster"),
        (lambda kept: kept.report(sent(kept.first, for_cluster=True)), "does not give out"),
        (lambda kept: kept.report(sent(kept.first, steps=0)), "does not give out"),
        (lambda kept: kept.report(came(kept.first)), "not open"),
        (lambda kept: kept.report(sent(kept.first), came(kept.first, "h")), "not open"),
        (lambda kept: kept.report(sent(kept.first), lost(kept.first), came(kept.first)), "not open"),
        (lambda kept: kept.report(trace.Resent(t=1.0, device="m", ticket=kept.first)), "not open"),
    ],
)
def test_a_forged_head_report_is_refused_and_no_event_of_it_is_entered(forged: Any, reason: str) -> None:
    kept = Kept()
    with pytest.raises(trace.TraceError, match=reason):
        forged(kept)
    assert (kept.events, kept.jobs) == ([], [])
