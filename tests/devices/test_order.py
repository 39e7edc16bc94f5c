"""The order of simultaneous things, by hand and in comparison with a plain reference."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from devices.work import State
from testbed.emulation.faults import PlannedSuspension
from testbed.profile.schema import ScriptedEvent
from tests.devices.parts import LOST, SMOOTH, Bench, FixedTimetable, kind_of
from tests.devices.reference_device import ReferenceDevice
from tests.devices.test_device import Remote
from tests.properties import examples

Action = tuple[Any, ...]

# all moments are multiples of an eighth of a second, like those of Bench: then many things are due at the same moment
SHORT = st.integers(1, 14).map(lambda eighths: eighths / 8)
FATES = st.sampled_from([SMOOTH, SMOOTH, LOST])
ATTEMPTS = st.tuples(st.integers(0, 4), st.integers(0, 1))
TIMETABLES = st.builds(
    FixedTimetable,
    downloads=st.dictionaries(ATTEMPTS, FATES, max_size=4),
    uploads=st.dictionaries(ATTEMPTS, FATES, max_size=4),
    suspensions=st.dictionaries(
        st.integers(0, 4),
        st.builds(PlannedSuspension, at=st.sampled_from([0.0, 0.25, 0.5, 0.75]), seconds=SHORT),
        max_size=3,
    ),
)
SETTINGS = st.fixed_dictionaries(
    {
        "cost": st.sampled_from([0.0, 0.125, 0.75]),
        "late": st.sampled_from([0.0, 0.125, 1.5]),
        "lead": st.sampled_from([0.0, 0.125, 0.75]),
        "ahead": st.sampled_from([0.0, 0.75]),
        "on_drop": st.sampled_from(["retry", "next_tick", "give_up"]),
        "on_lost_download": st.sampled_from(["wait", "old_base"]),
        "suspend_by": st.sampled_from(["hold", "signal"]),
        "throttle": st.sampled_from(["pace", "pace", "none", "cgroup"]),
    }
)
TRAINS = st.tuples(
    st.just("train"),
    st.integers(0, 2),  # how many tickets back; 0: a new one, 1: the last one
    st.integers(1, 5),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([0.0, 0.5]),
)
ACTIONS = st.one_of(
    TRAINS,
    TRAINS,
    st.tuples(st.just("grant"), st.integers(0, 1)),
    st.tuples(st.just("final")),
    st.tuples(st.just("wait"), SHORT),
    st.tuples(st.just("wait"), SHORT),
    st.tuples(st.just("oversleep"), SHORT),
    st.tuples(st.just("progress")),
)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[ScriptedEvent, ...]:
    moments = st.integers(0, 80).map(lambda eighths: eighths / 8)
    absences = draw(st.lists(st.tuples(moments, SHORT), max_size=4))
    found = [ScriptedEvent(at=at, device="rpi-1", do="suspend", seconds=seconds) for at, seconds in absences]
    if draw(st.integers(0, 7)) == 7:
        found.append(ScriptedEvent(at=draw(moments), device="rpi-1", do="kill"))
    return tuple(sorted(found, key=lambda event: event.at))


def snapshot(bench: Bench) -> tuple[Any, ...]:
    """Everything that the process of a device and the aggregator can observe."""
    device = bench.device
    return (
        bench.now,
        bench.events,
        [(moment, ask) for moment, ask in bench.asked],
        [(moment, each.ticket, each.due, each.finished, each.trains, each.loss) for moment, each in bench.delivered],
        (device.state, device.due(), device.frozen_until, device.awake_since),
        [device.wants_step(bench.now + later) for later in (0.0, 0.5, 1.0, 4.0)],
        device.heartbeat_without_events(),
    )


def play(bench: Bench, action: Action, newest: int) -> int:
    """Do one action, and return the newest ticket."""
    match action:
        case ("train", back, steps, grant, age):
            newest += back == 0
            ticket = max(1, newest - max(0, back - 1))
            bench.train(ticket, steps=steps, grant=grant, sent=max(0.0, bench.now - age))
        case ("grant", back):
            bench.grant(max(1, newest + 1 - back), 128.0)
        case ("final",):
            newest += 1
            bench.final(newest)
        case ("wait", seconds):
            bench.run_until(bench.now + seconds)
        case ("oversleep", seconds):
            bench.now += seconds
        case ("progress",):
            heartbeat = bench.device.heartbeat_without_events()
            if (
                bench.device.spec.throttle == "cgroup"
                and heartbeat.state == State.TRAINING
                and heartbeat.progress < 1.0
            ):
                bench.device.progressed(1.0, bench.now)
    return newest


@examples(1000)
@given(timetable=TIMETABLES, script=scripts(), chosen=SETTINGS, actions=st.lists(ACTIONS, max_size=25))
def test_the_list_of_what_is_due_gives_the_same_order_as_nested_conditions(
    timetable: FixedTimetable, script: tuple[ScriptedEvent, ...], chosen: dict[str, Any], actions: list[Action]
) -> None:
    changes = chosen | ({"seconds_per_sample": None} if chosen["throttle"] == "none" else {})
    remote = chosen["throttle"] == "cgroup"
    benches = [
        Bench(timetable, script=script, trainer=Remote() if remote else None, **changes, **kind)
        for kind in ({}, {"kind": ReferenceDevice})
    ]
    newest = [0, 0]
    for action in [("train", 0, 4, False, 0.0), *actions, ("wait", 100.0)]:
        newest = [play(bench, action, each) for bench, each in zip(benches, newest, strict=True)]
        one, other = map(snapshot, benches)
        assert one == other


def test_a_step_that_began_before_an_absence_is_computed_before_the_absence_and_a_download_after_it() -> None:
    away = ScriptedEvent(at=2.0, device="rpi-1", do="suspend", seconds=1.0)
    bench = Bench(script=(away,))
    bench.train(1, at=0.0)
    bench.run_until(1.5)  # three of four steps are computed; the fourth begins at 1.75
    bench.now = 4.0  # the process wakes late
    bench.train(2, sent=1.875)  # its download is due at 3.125, after the absence
    bench.device.advance(4.0)
    assert bench.device.wants_step(4.0)
    assert bench.device.state is State.TRAINING
    assert [kind_of(event) for event in bench.device.take_events()] == ["scripted"]
    bench.run_until(20.0)
    assert [kind for kind, _ in bench.times] == [
        *("downloaded", "suspended", "downloaded", "abandoned", "trained", "uploaded")
    ]
    [suspended], [abandoned] = bench.of_kind("suspended"), bench.of_kind("abandoned")
    assert (suspended.ticket, suspended.steps, suspended.asked) == (1, 4, 1.0)
    assert (abandoned.ticket, abandoned.steps) == (1, 4)
    assert bench.dues == [(2, 5.625)]
