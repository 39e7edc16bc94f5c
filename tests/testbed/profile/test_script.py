"""Scripted events: errors, targets, and the effects on a device and on the launcher."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import as_table
from testbed.host.survey import Survey
from testbed.loading import profile_loader, script_check
from testbed.profile import fleet, script
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment, Phase, ScriptedEvent
from testbed.profile.script import ScheduledAction, Script
from testbed.traces import availability
from testbed.traces.availability import AvailabilityTrace

FLEET: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 3},
    {"profile": "phone-low", "link": "lte", "name": "phone", "count": 2},
    {"name": "free", "link": "none", "profile": {"throttle": "none"}},
]
KILL: dict[str, Any] = {"at": 30, "device": "rpi4-2", "do": "kill"}
POISON: dict[str, Any] = {"at": 30, "device": "rpi4", "do": "poison", "how": "sign-flip", "value": 3}
REJOIN: dict[str, Any] = {"at": 40, "device": "rpi4-2", "do": "rejoin"}


def load(folder: Path, *events: dict[str, Any], devices: list[dict[str, Any]] | None = None, **keys: Any) -> Experiment:
    given = [{key: value for key, value in each.items() if value is not None} for each in events]
    table = {"strategy": "fedasync", "stop": {"seconds": 60}, "devices": devices or FLEET, "events": given}
    path = folder / "mine.toml"
    path.write_text(tomli_w.dumps(table | keys), encoding="utf-8")
    return profile_loader.load(path)


def refusal(folder: Path, *events: dict[str, Any], **keys: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(folder, *events, **keys)
    message = str(caught.value)
    assert "\n" not in message
    return message


def specs(experiment: Experiment) -> dict[str, DeviceSpec]:
    return {spec.name: spec for spec in fleet.concrete(experiment, Survey())}


def event(at: float, do: str, seconds: float | None = None, value: float | None = None) -> ScriptedEvent:
    return ScriptedEvent(at=at, device="a-1", do=do, seconds=seconds, value=value)


# ---- errors


BAD: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a missing moment": ([{"device": "rpi4-2", "do": "kill"}], ["events[0].at is missing"]),
    "a moment before the run": ([KILL | {"at": -1}], ["events[0].at is -1", "at least 0"]),
    "an unknown key": ([KILL | {"until": 3}], ["events[0].until is not a known key"]),
    "an unknown device": ([KILL, KILL | {"device": "rpi4-9"}], ["events[1].device is 'rpi4-9'", "did you mean 'rpi4-"]),
    "an unknown group": ([KILL | {"device": "phnoe"}], ["events[0].device is 'phnoe'", "did you mean 'phone'"]),
    "an unknown action": ([KILL | {"do": "kil"}], ["events[0].do is 'kil'", "did you mean 'kill'"]),
    "a suspension without duration": (
        [KILL | {"do": "suspend"}],
        ["events[0].seconds is missing", "how long the device"],
    ),
    "a suspension of 0 seconds": ([KILL | {"do": "suspend", "seconds": 0}], ["events[0].seconds is 0", "above 0"]),
    "a suspension with a value": (
        [KILL | {"do": "suspend", "seconds": 1, "value": 2}],
        ["events[0].value is 2", "'suspend' does not use it", "leave it out"],
    ),
    "a kill with a duration": ([KILL | {"seconds": 5}], ["events[0].seconds is 5", "'kill' does not use it", "rejoin"]),
    "a kill with a value": ([KILL | {"value": 5}], ["events[0].value is 5", "'kill' does not use it"]),
    "a rate without a value": ([KILL | {"do": "rate"}], ["events[0].value is missing", "a multiple"]),
    "a drop without a value": ([KILL | {"do": "drop"}], ["events[0].value is missing", "probability"]),
    "a rate of zero": ([KILL | {"do": "rate", "value": 0}], ["events[0].value is 0", "at least 1e-06", "suspend"]),
    "a negative speed": ([KILL | {"do": "speed", "value": -1}], ["events[0].value is -1", "at least 0"]),
    "a certain drop": ([KILL | {"do": "drop", "value": 1}], ["events[0].value is 1", "at least 0 and below 1"]),
    "a poison without a kind": ([POISON | {"how": None}], ["events[0].how is missing", "sign-flip, noise or scaled"]),
    "a poison of an unknown kind": ([POISON | {"how": "flip"}], ["events[0].how is 'flip'", "sign-flip"]),
    "a poison without a factor": ([POISON | {"value": None}], ["events[0].value is missing", "the factor"]),
    "a poison with a negative factor": ([POISON | {"value": -1}], ["events[0].value is -1", "at least 0"]),
    "a kill with a kind of poison": ([KILL | {"how": "noise"}], ["events[0].how is 'noise'", "'kill' does not use it"]),
    "a rate for a link without a limit": (
        [{"at": 1, "device": "free-1", "do": "rate", "value": 2}],
        ["events[0].do is 'rate'", "free-1 has no limit"],
    ),
    "a speed for a device that is not throttled": (
        [{"at": 1, "device": "*", "do": "speed", "value": 2}],
        ["events[0].do is 'speed'", "free-1 has throttle = 'none'", "only 'pace'"],
    ),
    "a kill of a dead device": (
        [KILL, KILL | {"at": 31}],
        ["events[1].do is 'kill'", "was killed at 30 (events[0])", "rejoin"],
    ),
    "a kill of all devices when one is dead": (
        [KILL | {"at": 31, "device": "*"}, KILL],
        ["events[0].do is 'kill'", "rpi4-2 was killed at 30 (events[1])"],
    ),
    "a suspension of a dead device": (
        [KILL, {"at": 31, "device": "rpi4", "do": "suspend", "seconds": 1}],
        ["events[1].do is 'suspend'", "rpi4-2 was killed"],
    ),
    "a rejoin of a living device": (
        [REJOIN],
        ["events[0].do is 'rejoin'", "rpi4-2 is alive at 40", "add a kill event before"],
    ),
    "a rejoin before the kill": ([KILL | {"at": 50}, REJOIN], ["events[1].do is 'rejoin'", "is alive at 40"]),
    "a rejoin at the moment of the kill": ([KILL, REJOIN | {"at": 30}], ["events[1].at is 30", "only later"]),
    "two events of a kind at one moment": (
        [KILL | {"device": "*", "do": "drop", "value": 0.5}, KILL | {"device": "phone-1", "do": "drop", "value": 0}],
        ["events[1].at is 30", "events[0] has 'drop' for phone-1"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_script_is_refused_with_file_key_value_and_remedy(tmp_path: Path, case: str) -> None:
    events, fragments = BAD[case]
    message = refusal(tmp_path, *events)
    assert message.startswith(f"{tmp_path / 'mine.toml'}: ")
    for fragment in fragments:
        assert fragment in message


def test_in_a_large_fleet_the_error_lists_groups_and_the_most_similar_name(tmp_path: Path) -> None:
    large = [{"profile": "rpi4", "count": 300}]
    message = refusal(tmp_path, KILL | {"device": "rpi4-301"}, devices=large)
    assert "did you mean 'rpi4-31'? known: rpi4, each of their 300 devices, and *" in message
    assert len(message) < 300


def test_an_error_in_an_override_names_the_option(tmp_path: Path) -> None:
    load(tmp_path, KILL)
    with pytest.raises(ProfileError, match=r"--set events\[0\].device=rpi4-8: events\[0\].device is 'rpi4-8'"):
        profile_loader.load(tmp_path / "mine.toml", ["events[0].device=rpi4-8"])


def test_the_last_device_that_could_end_the_run_may_not_be_killed(tmp_path: Path) -> None:
    all_devices = KILL | {"device": "*"}
    message = refusal(tmp_path, all_devices, stop={"versions": 100})
    assert "events[0].do is 'kill', and no device is left" in message
    load(tmp_path, all_devices)  # it ends after 60 s in any case
    load(tmp_path, all_devices, REJOIN, stop={"versions": 100})


def test_an_event_after_the_end_of_the_run_is_a_warning(tmp_path: Path) -> None:
    late = load(tmp_path, KILL, REJOIN | {"at": 60})
    assert script_check.too_late(late) == [
        "events[1].at is 60; the run ends at 60 (stop.seconds), so 'rejoin' will not happen"
    ]
    assert script_check.too_late(load(tmp_path, KILL, stop={"versions": 100})) == []


# ---- targets


@pytest.mark.parametrize(
    ("who", "names"),
    [
        ("rpi4-2", ["rpi4-2"]),
        ("phone", ["phone-1", "phone-2"]),
        ("*", ["rpi4-1", "rpi4-2", "rpi4-3", "phone-1", "phone-2", "free-1"]),
    ],
)
def test_an_event_is_for_a_device_a_group_or_the_whole_fleet(tmp_path: Path, who: str, names: list[str]) -> None:
    experiment = load(tmp_path, {"at": 3, "device": who, "do": "suspend", "seconds": 2})
    scripts = {name: spec.script for name, spec in specs(experiment).items() if spec.script}
    assert list(scripts) == names
    assert scripts[names[0]] == (ScriptedEvent(at=3.0, device=names[0], do="suspend", seconds=2.0),)


def test_a_device_has_its_events_in_order(tmp_path: Path) -> None:
    experiment = load(tmp_path, REJOIN, KILL, {"at": 35, "device": "rpi4", "do": "speed", "value": 0.5})
    assert [each.do for each in specs(experiment)["rpi4-2"].script] == ["kill", "speed", "rejoin"]


def test_a_resolved_script_is_valid(tmp_path: Path) -> None:
    experiment = load(tmp_path, KILL, REJOIN, POISON, {"at": 3, "device": "phone", "do": "drop", "value": 0.25})
    path = tmp_path / "again.toml"
    path.write_text(tomli_w.dumps(as_table(experiment)), encoding="utf-8")
    assert profile_loader.load(path).events == experiment.events


def test_in_a_replay_only_kills_and_rejoins_are_carried_out(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").touch()
    paced = FLEET[:1]
    suspension = {"at": 3, "device": "*", "do": "suspend", "seconds": 2}
    experiment = load(tmp_path, suspension, POISON, KILL, REJOIN, devices=paced, replay={"trace": "trace.jsonl"})
    assert [each.do for each in script.events_of(experiment, "rpi4-2", experiment.devices[0])] == ["kill", "rejoin"]


# ---- events of one device


@pytest.mark.parametrize(
    ("events", "phases"),
    [
        ([], []),
        ([event(5, "rate", value=0.5)], [(5, 0.5)]),
        ([event(5, "rate", 10, 0.5)], [(5, 0.5), (15, 1.0)]),
        ([event(5, "rate", 10, 0.5), event(8, "rate", 2, 3.0)], [(5, 0.5), (8, 3.0), (10, 1.0)]),
        ([event(5, "rate", 3, 0.5), event(8, "rate", value=3.0)], [(5, 0.5), (8, 3.0)]),
        ([event(5, "rate", value=0.5), event(6, "speed", value=2.0)], [(5, 0.5)]),
    ],
)
def test_a_change_lasts_for_its_seconds_or_until_the_next_of_its_kind(
    events: list[ScriptedEvent], phases: list[tuple[float, float]]
) -> None:
    assert script.phases(events, "rate") == tuple(Phase(at=at, speed=value) for at, value in phases)


def test_the_drop_probability_is_that_of_the_moment_or_else_of_the_profile() -> None:
    events = [event(5, "drop", 10, 0.5), event(8, "drop", 2, 0.0)]
    found = [script.drop_at(events, moment) for moment in (4.9, 5.0, 7.9, 8.0, 9.9, 10.0, 14.0)]
    assert found == [None, 0.5, 0.5, 0.0, 0.0, None, None]


def test_overlapping_suspensions_are_merged_and_a_kill_ends_them() -> None:
    events = [event(2, "suspend", 3), event(4, "suspend", 4), event(9, "suspend", 1), event(20, "suspend", 9)]
    assert list(script.suspensions(events, 0.0)) == [(2, 8), (9, 10), (20, 29)]
    assert list(script.suspensions(events, 8.0)) == [(9, 10), (20, 29)]
    events += [event(25, "kill"), event(26, "rejoin")]
    assert list(script.suspensions(events, 10.0)) == [(20, 25)]


def test_absences_of_trace_and_script_are_merged(tmp_path: Path) -> None:
    availability.write(tmp_path / "there.csv", AvailabilityTrace([0.0, 10.0, 12.0], [1.0, 0.0, 1.0], 20.0))
    experiment = load(
        tmp_path,
        {"at": 11, "device": "x", "do": "suspend", "seconds": 5},
        devices=[{"profile": "rpi4", "name": "x", "availability": "there.csv", "availability_offset": 0.0}],
    )
    absences = specs(experiment)["x-1"].absences(0.0)
    assert list(islice(absences, 3)) == [(10, 16), (30, 32), (50, 52)]


def test_a_script_multiplies_the_speeds_of_the_schedule(tmp_path: Path) -> None:
    experiment = load(
        tmp_path,
        {"at": 10, "device": "x", "do": "speed", "value": 0.5, "seconds": 10},
        devices=[{"profile": "rpi4", "name": "x", "schedule": [{"at": 15, "speed": 0.5}]}],
    )
    curve = specs(experiment)["x-1"].curve
    # 5 s at 1, 5 at 1/2, 5 at 1/4, the rest at 1/2
    assert curve.work(5.0, 20.0) == 5 + 2.5 + 1.25
    assert curve.when(5.0, 5 + 2.5 + 1.25) == 20.0
    assert curve.when(20.0, 1.0) == 22.0
    assert curve.fastest == 1.0


# ---- events of one process


def popped(own: Script) -> list[tuple[float, str, float | None]]:
    found = []
    while own.next < math.inf:
        each = own.pop()
        found.append((each.at, each.do, each.seconds))
    return found


KILLED_TWICE = [
    event(2, "drop", value=0.5),
    event(3, "speed", 30, 0.5),
    event(10, "kill"),
    event(11, "rate", 4, 0.5),
    event(12, "rate", 20, 0.25),
    event(13, "drop", 5, 0.75),
    event(20, "rejoin"),
    event(21, "suspend", 1),
    event(30, "kill"),
]


def test_the_first_process_ends_with_the_first_kill() -> None:
    own = Script(KILLED_TWICE)
    assert own.killed_at == 10
    assert popped(own)[:3] == [(2, "drop", None), (3, "speed", 30), (10, "kill", None)]


def test_the_second_process_gets_changes_that_began_while_the_device_was_dead_and_still_last() -> None:
    own = Script(KILLED_TWICE, begins=20)
    assert own.killed_at == 30
    assert popped(own) == [(20, "rate", 12), (21, "suspend", 1), (30, "kill", None)]


# ---- actions of the launcher


def test_the_launcher_acts_in_order_and_forks_a_device_only_after_its_old_process_ended() -> None:
    quick = [ScriptedEvent(at=at, device="b-1", do=do) for at, do in ((10.0, "kill"), (10.5, "rejoin"), (30.0, "kill"))]
    slow = [event(9.0, "kill"), event(12.0, "drop", value=0.5), event(20.0, "rejoin")]
    assert script.scheduled_actions([slow, quick], grace=0.25, boot=2.0) == [
        ScheduledAction(moment=9.25, at=9.0, device="a-1", do="kill"),
        ScheduledAction(moment=10.25, at=10.0, device="b-1", do="kill"),
        ScheduledAction(moment=10.25, at=10.5, device="b-1", do="rejoin"),
        ScheduledAction(moment=18.0, at=20.0, device="a-1", do="rejoin"),
        ScheduledAction(moment=30.25, at=30.0, device="b-1", do="kill"),
    ]


def test_the_script_in_the_readme_is_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    [block] = [part.partition("```")[0] for part in text.split("```toml\n")[1:] if "[[events]]" in part]
    path = tmp_path / "mine.toml"
    path.write_text(f'strategy = "fedasync"\ndevices = [{{ profile = "rpi4", count = 3 }}]\n{block}', encoding="utf-8")
    assert [event.do for event in profile_loader.load(path).events] == ["suspend", "kill", "rejoin", "rate", "poison"]
