"""Incidents of the devices of a run, as spans and as lines."""

from __future__ import annotations

from testbed.history import trace
from testbed.history.trace import Event, Scripted
from testbed.trace_tools import incidents
from testbed.trace_tools.incidents import IncidentSpan
from testbed.trace_tools.trace_summary import RunSummary


def scripted(
    t: float, do: str, device: str = "a", seconds: float | None = None, value: float | None = None
) -> Scripted:
    return Scripted(t=t, device=device, do=do, seconds=seconds, value=value)


def spans(*events: Event) -> list[IncidentSpan]:
    end = trace.Stopped(t=30.0, reason="over", version=1, in_flight=0)
    return list(incidents.spans(RunSummary([*events, end], times=True)))


def test_a_suspension_has_its_measured_length() -> None:
    suspension = trace.Suspended(t=9.5, device="a", ticket=0, asked=4.0, obtained=4.5)
    assert spans(scripted(5.0, "suspend", seconds=4.0), suspension) == [
        IncidentSpan(kind="suspended", device="a", begin=5.0, end=9.5)
    ]


def test_a_killed_device_is_dead_until_it_rejoins_or_the_run_ends() -> None:
    events = [scripted(4.0, "kill"), scripted(6.0, "kill", "b"), scripted(8.0, "rejoin")]
    assert spans(*events) == [
        IncidentSpan(kind="dead", device="a", begin=4.0, end=8.0),
        IncidentSpan(kind="dead", device="b", begin=6.0, end=30.0),
    ]


def test_a_change_lasts_for_its_seconds_or_until_the_next_of_its_kind_or_the_end() -> None:
    events = [
        scripted(1.0, "rate", seconds=2.0, value=0.5),
        scripted(4.0, "rate", seconds=9.0, value=0.25),
        scripted(5.0, "drop", value=0.1),
        scripted(6.0, "rate", value=2.0),
        scripted(7.0, "rate", "b", value=3.0),
    ]
    assert [(span.kind, span.begin, span.end, span.value) for span in spans(*events)] == [
        ("rate", 1.0, 3.0, 0.5),
        ("rate", 4.0, 6.0, 0.25),
        ("drop", 5.0, 30.0, 0.1),
        ("rate", 6.0, 30.0, 2.0),
        ("rate", 7.0, 30.0, 3.0),
    ]


def test_a_poison_has_a_span_and_its_line_names_its_kind() -> None:
    event = Scripted(t=4.0, device="a", do="poison", seconds=6.0, value=3.0, how="sign-flip")
    assert spans(event) == [IncidentSpan(kind="poison", device="a", begin=4.0, end=10.0, value=3.0)]
    assert list(incidents.lines([event])) == ["at 4 s: poison sign-flip 3 for 6 s: a"]


def test_equal_incidents_at_one_moment_share_a_line() -> None:
    events = [
        *(scripted(12.0, "rate", f"d-{i}", seconds=6.0, value=0.25) for i in range(6)),
        scripted(18.0018, "rejoin"),
        scripted(5.0, "suspend", seconds=4.0),
    ]
    assert list(incidents.lines(events)) == [
        "at 5 s: suspend for 4 s: a",
        "at 12 s: rate 0.25 for 6 s: d-0, d-1, d-2, d-3 and 2 more",
        "at 18 s: rejoin: a",
    ]
