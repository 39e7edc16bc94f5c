"""The states of devices over time: spans, calculated by hand from events."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.timeline import Span, Timeline
from testbed.history.event_pass import pass_events
from testbed.history.trace import Asked, Event, Granted, Scored, Stopped
from tests.testbed.analysis.histories import abandoned, download, scripted, stopped, suspended, trained, upload


def spans(events: Sequence[Event]) -> list[Span]:
    """The spans of a trace. It ends when it was stopped or, without that, at its last event that is no score."""
    found: list[Span] = []
    timeline = Timeline(found.append)
    pass_events(events, timeline)
    stopped_at = [event.t for event in events if isinstance(event, Stopped)]
    moments = [event.t for event in events if not isinstance(event, Scored)]
    timeline.end(stopped_at[-1] if stopped_at else max(moments, default=0.0))
    return found


def drawn(*events: Event) -> list[tuple[str, float, float, int]]:
    return [(span.state, span.start, span.end, span.ticket) for span in spans(events)]


def test_a_job_is_a_download_computing_and_an_upload() -> None:
    assert spans([download(1, 0.0, 1.0), trained(1, 3.0, 2.0), upload(1, 3.0, 3.5)]) == [
        Span("a", "download", 0.0, 1.0, 1),
        Span("a", "computing", 1.0, 3.0, 1),
        Span("a", "upload", 3.0, 3.5, 1),
    ]


def asked(ticket: int, at: float) -> Asked:
    return Asked(t=at, device="a", ticket=ticket, due=at, received=at, handled=at)


def granted(ticket: int, at: float) -> Granted:
    return Granted(t=at, device="a", ticket=ticket, rate=1e6, share=0.5)


def test_a_device_waits_until_it_gets_a_grant_or_the_run_ends() -> None:
    events = [trained(1, 3.0, 2.0), asked(1, 3.0), granted(1, 5.0), upload(1, 5.0, 6.0), asked(2, 7.0), stopped(9.0)]
    assert drawn(*events) == [
        ("computing", 1.0, 3.0, 1),
        ("waiting", 3.0, 5.0, 1),
        ("upload", 5.0, 6.0, 1),
        ("waiting", 7.0, 9.0, 2),
    ]


def test_a_device_with_a_grant_before_its_request_does_not_wait() -> None:
    assert drawn(granted(1, 2.0), asked(1, 3.0), upload(1, 3.0, 4.0), stopped(9.0)) == [("upload", 3.0, 4.0, 1)]


def test_a_lost_transfer_is_marked_as_lost() -> None:
    lost = [download(1, 0.0, 1.0, dropped=True), upload(1, 3.0, 3.5, dropped=True), upload(1, 3.5, 4.0)]
    assert [span.lost for span in spans(lost)] == [True, True, False]


def test_a_transfer_that_takes_no_time_is_no_span() -> None:
    assert drawn(download(1, 1.0, 1.0), upload(1, 2.0, 2.0)) == []


def test_computing_is_cut_around_its_suspensions() -> None:
    events = [suspended(1, 2.0, 3.0), suspended(1, 4.0, 6.0, away=True), trained(1, 7.0, 3.0)]
    assert drawn(*events) == [
        ("suspended", 2.0, 3.0, 1),
        ("suspended", 4.0, 6.0, 1),
        ("computing", 1.0, 2.0, 1),
        ("computing", 3.0, 4.0, 1),
        ("computing", 6.0, 7.0, 1),
    ]


def test_a_suspension_at_the_very_beginning_or_end_leaves_computing_in_one_piece() -> None:
    assert drawn(suspended(1, 1.0, 2.0), trained(1, 4.0, 2.0))[1:] == [("computing", 2.0, 4.0, 1)]
    assert drawn(suspended(1, 3.0, 4.0), abandoned(1, 4.0, 2.0))[1:] == [("abandoned", 1.0, 3.0, 1)]


def test_suspensions_of_another_job_or_of_a_device_that_did_not_compute_cut_nothing() -> None:
    others = [suspended(1, 1.0, 1.5), suspended(0, 2.0, 2.5), suspended(2, 1.0, 2.0, "b")]
    assert drawn(*others, trained(2, 5.0, 2.0))[3:] == [("computing", 3.0, 5.0, 2)]


def test_a_job_that_is_reported_late_keeps_its_length() -> None:
    """It computed from 1 to 2 and from 4 to 5, and said so half a second later."""
    pieces = [span for span in spans([suspended(1, 2.0, 4.0), trained(1, 5.5, 2.0)]) if span.state == "computing"]
    assert [(piece.start, piece.end) for piece in pieces] == [(1.5, 2.0), (4.0, 5.5)]
    assert sum(piece.seconds for piece in pieces) == 2.0


def test_a_transfer_pauses_during_an_absence() -> None:
    """A transfer of 3 s with an absence of 2 s."""
    events = [suspended(0, 1.5, 3.5, away=True), download(1, 1.0, 4.0, absent=2.0)]
    assert drawn(*events) == [("suspended", 1.5, 3.5, 0), ("download", 1.0, 1.5, 1), ("download", 3.5, 4.0, 1)]
    events = [suspended(0, 1.5, 2.5, away=True), suspended(0, 3.0, 4.0, away=True), upload(1, 1.0, 4.5, absent=2.0)]
    assert drawn(*events)[2:] == [("upload", 1.0, 1.5, 1), ("upload", 2.5, 3.0, 1), ("upload", 4.0, 4.5, 1)]


def test_an_absence_before_a_transfer_does_not_interrupt_it() -> None:
    events = [suspended(0, 0.0, 1.0, away=True), suspended(0, 3.0, 4.0, away=True), download(1, 1.0, 5.0, absent=1.0)]
    assert drawn(*events)[2:] == [("download", 1.0, 3.0, 1), ("download", 4.0, 5.0, 1)]


def test_a_download_continues_while_the_old_job_is_suspended() -> None:
    """Its computing is suspended, but the device is present."""
    events = [suspended(1, 2.0, 4.0), download(2, 1.0, 5.0), abandoned(1, 5.0, 3.0)]
    assert drawn(*events) == [
        ("suspended", 2.0, 4.0, 1),
        ("download", 1.0, 5.0, 2),
        ("abandoned", 0.0, 2.0, 1),
        ("abandoned", 4.0, 5.0, 1),
    ]


def test_work_abandoned_during_its_upload_is_counted_once() -> None:
    assert drawn(trained(1, 3.0, 2.0), abandoned(1, 4.0, 2.0)) == [("computing", 1.0, 3.0, 1)]


def test_a_killed_device_is_dead_until_it_rejoins_or_the_run_ends() -> None:
    events = [scripted("kill", 1.0), scripted("rejoin", 3.0), scripted("kill", 6.0), stopped(8.0)]
    assert drawn(*events) == [("dead", 1.0, 3.0, 0), ("dead", 6.0, 8.0, 0)]
    assert drawn(scripted("rate", 1.0), scripted("rejoin", 2.0), stopped(8.0)) == []


SECONDS = st.integers(1, 64).map(lambda eighths: eighths / 8)


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=8), SECONDS, st.sampled_from([0.0, 0.125, 0.5]))
def test_the_pieces_of_a_job_have_its_length_are_in_order_and_avoid_suspensions(
    stretches: list[tuple[float, float]], last: float, late: float
) -> None:
    """A job with several suspensions that is reported a little late."""
    events: list[Event] = []
    now, computed = 0.0, 0.0
    for computing, hanging in stretches:
        events.append(suspended(1, now + computing, now + computing + hanging))
        now, computed = now + computing + hanging, computed + computing
    computed, end = computed + last, now + last + late
    found = [span for span in spans([*events, trained(1, end, computed)]) if span.state == "computing"]
    suspensions = spans(events)
    assert sum(span.seconds for span in found) == computed
    assert found[-1].end == end
    assert all(before.end <= after.start for before, after in itertools.pairwise(found))
    assert not [
        1 for span in found for suspension in suspensions if span.start < suspension.end and suspension.start < span.end
    ]
