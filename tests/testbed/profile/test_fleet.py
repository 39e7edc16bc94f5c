"""Devices that follow from the groups in a profile."""

from __future__ import annotations

from pathlib import Path

from testbed.history.events.watts import Watts
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.profile import fleet
from testbed.profile.schema import Experiment, Phase
from tests.testbed.examples import write_profile

SURVEY = Survey()
MIXED = """
strategy = "fedavg"
devices = [
    { profile = "rpi4", count = 2 },
    { profile = "host", name = "fast" },
    { profile = "rpi5", name = "rpi4", drop = 0.25 },
]
"""
HOT = "schedule = [{ at = 120, speed = 0.5 }]"


def load(folder: Path, text: str) -> Experiment:
    return profile_loader.load(write_profile(folder, text))


def one(folder: Path, group: str) -> fleet.DeviceSpec:
    (device,) = fleet.concrete(load(folder, f'strategy = "fedavg"\n[[devices]]\nname = "x"\n{group}'), SURVEY)
    return device


def test_names_do_not_need_a_survey_and_equal_those_of_the_devices(tmp_path: Path) -> None:
    experiment = load(tmp_path, MIXED)
    names = ["rpi4-1", "rpi4-2", "fast-1", "rpi4-3"]
    assert fleet.names(experiment) == names
    assert [device.name for device in fleet.concrete(experiment, SURVEY)] == names


def test_a_device_has_its_index_in_the_fleet_and_that_of_its_group(tmp_path: Path) -> None:
    devices = fleet.concrete(load(tmp_path, MIXED), SURVEY)
    assert [device.index for device in devices] == [0, 1, 2, 3]
    assert [device.group for device in devices] == [0, 0, 1, 2]


def test_a_drop_of_the_group_replaces_only_the_drops_of_the_link(tmp_path: Path) -> None:
    link = "link = { up = { mbit = 2, drop = 0.5 }, down = { delay = 0.125 } }"
    kept, replaced = one(tmp_path, f'profile = "rpi4"\n{link}'), one(tmp_path, f'profile = "rpi4"\n{link}\ndrop = 0.25')
    assert (kept.up.drop, kept.down.drop) == (0.5, 0.0)
    assert (replaced.up.drop, replaced.down.drop) == (0.25, 0.25)
    assert (replaced.up.mbit, replaced.down.delay) == (2.0, 0.125)


def test_a_drop_of_zero_overrides_the_link(tmp_path: Path) -> None:
    device = one(tmp_path, 'profile = "rpi4"\nlink = { up = { drop = 0.5 } }\ndrop = 0')
    assert device.up.drop == 0.0


def test_a_schedule_of_the_group_replaces_that_of_the_profile_and_its_period(tmp_path: Path) -> None:
    profile = "profile = { seconds_per_sample = 1, schedule = [{ at = 5, speed = 0.3 }], schedule_period = 60 }"
    inherited, own = one(tmp_path, profile), one(tmp_path, f"{profile}\n{HOT}")
    assert (inherited.schedule, inherited.schedule_period) == ((Phase(at=5.0, speed=0.3),), 60.0)
    assert (own.schedule, own.schedule_period) == ((Phase(at=120.0, speed=0.5),), None)


def test_the_curve_of_a_device_follows_its_schedule(tmp_path: Path) -> None:
    hot, plain = one(tmp_path, f'profile = "rpi4"\n{HOT}').curve, one(tmp_path, 'profile = "rpi4"').curve
    assert hot.when(100.0, 30.0) == 140.0
    assert plain.when(100.0, 30.0) == 130.0


def test_the_default_title_of_a_device_is_the_name_of_its_group(tmp_path: Path) -> None:
    assert one(tmp_path, "profile = { seconds_per_sample = 1 }").title == "x"
    assert one(tmp_path, 'profile = { seconds_per_sample = 1, title = "Board" }').title == "Board"


# ---- power


def watts_of(folder: Path, power: str, radio: str) -> Watts | None:
    link = f"link = {{ power = {{ {radio} }} }}"
    return one(folder, f"profile = {{ seconds_per_sample = 1, power = {{ {power} }} }}\n{link}").watts


def test_a_device_without_a_power_model_has_no_watts(tmp_path: Path) -> None:
    assert one(tmp_path, 'profile = "host"\nlink = "wifi"').watts is None


def test_missing_figures_of_the_radio_are_those_of_the_link(tmp_path: Path) -> None:
    board, radio = 'idle = 1, compute = 5, source = "board"', 'transmit = 2, receive = 0.5, source = "modem"'
    assert watts_of(tmp_path, board, radio) == Watts(
        idle=1, compute=5, suspended=1, transmit=2, receive=0.5, source="board; radio: modem"
    )
    assert watts_of(tmp_path, f"{board}, transmit = 3", radio) == Watts(
        idle=1, compute=5, suspended=1, transmit=3, receive=0.5, source="board; radio: modem"
    )
    assert watts_of(tmp_path, f"{board}, transmit = 3, receive = 0, suspended = 0.25", radio) == Watts(
        idle=1, compute=5, suspended=0.25, transmit=3, receive=0, source="board"
    )


def test_a_radio_without_figures_uses_0_watts_and_the_source_says_so(tmp_path: Path) -> None:
    profile = "profile = { seconds_per_sample = 1, power = { idle = 1, compute = 5 } }"
    assert one(tmp_path, f"{profile}\nlink = {{ up = {{ mbit = 2 }} }}").watts == Watts(
        idle=1, compute=5, suspended=1, transmit=0, receive=0, source="radio: no figures, assumed 0 W"
    )


def test_a_shipped_device_has_the_watts_of_its_profile_and_its_link(tmp_path: Path) -> None:
    watts = one(tmp_path, 'profile = "rpi4"\nlink = "wifi"').watts
    assert watts is not None
    assert (watts.idle, watts.compute, watts.suspended, watts.transmit, watts.receive) == (2.29, 6.82, 2.29, 0.98, 0.69)
    assert watts.source.startswith("joular/powermodels")
    assert "radio: PowerTutor" in watts.source
