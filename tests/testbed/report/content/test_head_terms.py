"""Clusters in a report: heads over time, replacements with reasons, and updates at the aggregator."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.history import trace
from testbed.history.event_pass import pass_events
from testbed.history.trace import Event
from testbed.report import sections
from testbed.report.content.head_terms import NO_ANSWER, Clusters
from testbed.report.figures import style
from testbed.report.sections import Section
from testbed.wire.ticket_ranges import first_ticket
from tests.testbed.analysis import histories
from tests.testbed.report.examples import HEADER, SMALL, arrived, gathered, write

MEMBERS = ["a", "b", "c"]


def grouped(
    t: float, ticket_range: int, head: str, cluster: int = 0, members: list[str] | None = None
) -> trace.Grouped:
    return trace.Grouped(
        t=t, cluster=cluster, ticket_range=ticket_range, head=head, members=members or MEMBERS, quorum=1
    )


def sent(ticket: int, t: float, device: str, *, for_cluster: bool = False) -> trace.Dispatched:
    return trace.Dispatched(t=t, device=device, ticket=ticket, version=0, steps=1, for_cluster=for_cluster)


LEAD, OWN = 10, first_ticket(2)
EVENTS: list[Event] = [
    HEADER,
    *(histories.joined(name) for name in MEMBERS),
    sent(1, 0.0, "a"),
    arrived(1, 1.0, 1.0, "a"),
    trace.Rejected(t=1.0, device="a", ticket=1, reason="for clusters"),
    trace.Clustered(t=1.0, version=0, clusters=[MEMBERS], purity=0.75),
    grouped(1.0, 2, "a"),
    sent(LEAD, 1.0, "a", for_cluster=True),
    sent(OWN, 1.0, "b"),
    arrived(OWN, 2.0, 1.0, "b"),
    arrived(LEAD, 2.0, 1.0, "a"),
    trace.Aggregated(t=2.0, version=1, tickets=[LEAD], weights=[1.0], staleness=[0]),
    trace.Merged(t=2.0, device="a", ticket=LEAD, tickets=[OWN], weights=[1.0], staleness=[0]),
    grouped(2.5, 2, "a", members=["a", "b"]),
    grouped(3.0, 3, "b"),
    trace.Left(t=4.0, device="b", reason="it was silent"),
    grouped(4.0, 4, "c", members=["a", "c"]),
    sent(first_ticket(5), 5.0, "a"),
    trace.Clustered(t=6.0, version=1, clusters=[["a"], ["c"]], purity=None),
    grouped(6.0, 6, "a"),
    grouped(6.0, 7, "c", cluster=1),
    histories.stopped(8.0),
]


def watched() -> Clusters:
    found = Clusters()
    pass_events(EVENTS, found)
    return found


def test_a_head_is_replaced_because_it_left_or_did_not_answer() -> None:
    assert [(each.t, each.old, each.new, each.why) for each in watched().replaced] == [
        (3.0, "a", "b", NO_ANSWER),
        (4.0, "b", "c", "it was silent"),
    ]


def test_a_head_is_one_until_it_is_replaced_or_the_aggregator_asks_all_devices_again() -> None:
    terms = [(each.head, each.since, each.until) for each in watched().head_terms]
    assert terms == [("a", 1.0, 3.0), ("b", 3.0, 4.0), ("c", 4.0, 5.0), ("a", 6.0, None), ("c", 6.0, None)]


def test_each_clustering_has_the_heads_that_it_began_with() -> None:
    assert [(each.t, each.version, each.purity, each.heads) for each in watched().clusterings] == [
        (1.0, 0, 0.75, {0: "a"}),
        (6.0, 1, None, {0: "a", 1: "c"}),
    ]


def test_updates_at_the_aggregator_are_from_heads_or_for_a_clustering() -> None:
    found = watched()
    assert (found.by_heads, found.by_devices, found.merged) == ({"a": 1}, {"a": 1}, 1)


def section(folder: Path, events: list[Event]) -> Section | None:
    with style.style():
        drawn = sections.draw(gathered(write(folder, events)))
    return next((each for each in drawn if each.title == "Clusters and their heads"), None)


def test_the_section_has_figures_and_tables(tmp_path: Path) -> None:
    found = section(tmp_path, EVENTS)
    assert found is not None
    assert {picture.name: picture.gist for picture in found.pictures} == {
        "heads": "3 devices of 3 were heads of a cluster at some time. Clusterings (dashed): 2; heads replaced"
        " (crosses): 2.",
        "at-aggregator": "1 update from heads, merged from 1 update of devices, and 1 directly from devices, for"
        " clusterings.",
        "purity": "Share of the devices with the same labels as most of their cluster, at each clustering: 75 % at"
        " least, 75 % at most, 75 % at the last.",
    }
    made, replaced = found.tables
    assert made.rows == [("1.0 s", "0", "3", "75 %", "a"), ("6.0 s", "1", "1, 1", "–", "a, c")]
    assert replaced.rows[1] == ("4.0 s", "0", "b", "it was silent", "c")


def test_many_clusterings_are_shown_in_part(tmp_path: Path) -> None:
    again: list[Event] = [
        event
        for number in range(30)
        for event in (
            trace.Clustered(t=2.0 + number, version=number, clusters=[MEMBERS], purity=1.0),
            grouped(2.0 + number, 10 + number, "a"),
        )
    ]
    found = section(tmp_path, [*EVENTS[:4], *again, histories.stopped(40.0)])
    assert found is not None
    [made] = found.tables  # no head was replaced
    assert (made.caption, len(made.rows)) == ("Clusterings (the first 25 of 30)", 25)


@pytest.mark.parametrize("events", [SMALL, [HEADER]])
def test_without_clusters_there_is_no_section(events: list[Event], tmp_path: Path) -> None:
    assert section(tmp_path, events) is None


def test_the_terms_of_heads_last_until_the_next_clusters_are_found() -> None:
    asked = trace.Dispatched(t=5.5, device="a", ticket=11, version=1, steps=0, gradient=True)
    found = Clusters()
    pass_events([*EVENTS[:11], asked, trace.Clustered(t=6.0, version=1, clusters=[MEMBERS], purity=None)], found)
    assert [(term.head, term.until) for term in found.head_terms] == [("a", 6.0)]
