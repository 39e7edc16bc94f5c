"""Settings for lost uploads and downloads: phi, ticks, and the model that a device continues from."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment
from testbed.runs.run_folder import RunFolder
from tests.testbed.examples import write_profile

AUDG = 'strategy = { name = "audg", interval = 2.5 }'
LINK = "link = { up = { mbit = 2, drop = 0.125 }, down = { delay = 0.5, drop = 0.25 } }"


def load(folder: Path, group: str, *overrides: str, strategy: str = AUDG) -> Experiment:
    """Load an experiment with one device group."""
    return profile_loader.load(write_profile(folder, f'{strategy}\n[[devices]]\nprofile = "rpi4"\n{group}'), overrides)


def device(folder: Path, group: str, *overrides: str, strategy: str = AUDG) -> DeviceSpec:
    (spec,) = fleet.concrete(load(folder, group, *overrides, strategy=strategy), Survey())
    return spec


def refusal(folder: Path, group: str, *overrides: str, strategy: str = AUDG) -> str:
    with pytest.raises(UserError) as caught:
        load(folder, group, *overrides, strategy=strategy)
    return str(caught.value)


# ---- phi


def test_phi_changes_only_the_drop_probability_of_uploads(tmp_path: Path) -> None:
    spec = device(tmp_path, f"{LINK}\nphi = 0.75")
    assert (spec.up.drop, spec.down.drop) == (0.25, 0.25)
    spec = device(tmp_path, f"{LINK}\nphi = 0.0625")
    assert (spec.up.drop, spec.down.drop) == (0.9375, 0.25)
    assert (spec.up.mbit, spec.down.delay) == (2.0, 0.5)


def test_with_phi_the_drop_of_the_group_applies_to_downloads(tmp_path: Path) -> None:
    spec = device(tmp_path, f"{LINK}\ndrop = 0.5\nphi = 0.75")
    assert (spec.up.drop, spec.down.drop) == (0.25, 0.5)


def test_with_a_phi_of_1_no_upload_is_lost(tmp_path: Path) -> None:
    assert device(tmp_path, f"{LINK}\nphi = 1").up.drop == 0.0


def test_with_phi_an_upload_is_tried_once_per_interval_of_the_strategy(tmp_path: Path) -> None:
    spec = device(tmp_path, "phi = 0.5")
    assert (spec.on_drop, spec.tick) == ("next_tick", 2.5)
    spec = device(tmp_path, "phi = 0.5", "strategy.interval=4")
    assert (spec.on_drop, spec.tick) == ("next_tick", 4.0)


def test_without_phi_the_link_is_unchanged(tmp_path: Path) -> None:
    spec = device(tmp_path, LINK)
    assert (spec.up.drop, spec.down.drop, spec.on_drop, spec.tick) == (0.125, 0.25, "retry", None)


@pytest.mark.parametrize(("phi", "problem"), [("0", "is 0"), ("1.5", "is 1.5"), ("-1", "is -1"), ("nan", "is nan")])
def test_phi_is_a_probability_above_0(tmp_path: Path, phi: str, problem: str) -> None:
    message = refusal(tmp_path, f"phi = {phi}")
    assert message.startswith(f"{tmp_path}/mine.toml: devices[0].phi {problem}")
    assert phi == "nan" or "at least 1e-06 and at most 1" in message


def test_phi_and_give_up_exclude_each_other(tmp_path: Path) -> None:
    message = refusal(tmp_path, 'phi = 0.5\non_drop = "give_up"')
    assert message.startswith(f"{tmp_path}/mine.toml: devices[0].on_drop is give_up; ")
    assert "phi" in message
    assert "leave it out" in message
    message = refusal(tmp_path, "phi = 0.5", "devices[0].on_drop=give_up")
    assert message.startswith("--set devices[0].on_drop=give_up: devices[0].on_drop is give_up; ")


# ---- ticks


def test_a_tick_of_the_group_overrides_the_interval_of_the_strategy(tmp_path: Path) -> None:
    assert device(tmp_path, 'on_drop = "next_tick"').tick == 2.5
    assert device(tmp_path, 'on_drop = "next_tick"\ntick = 0.75').tick == 0.75


def test_phi_is_per_interval_if_the_strategy_has_one(tmp_path: Path) -> None:
    assert device(tmp_path, "phi = 0.5\ntick = 2.5").tick == 2.5
    message = refusal(tmp_path, "phi = 0.5\ntick = 0.75")
    assert message.startswith(f"{tmp_path}/mine.toml: devices[0].tick is 0.75; ")
    assert "that of audg is 2.5: leave it out" in message
    message = refusal(tmp_path, "phi = 0.5", "devices[0].tick=0.75")
    assert message.startswith("--set devices[0].tick=0.75: devices[0].tick is 0.75; ")


@pytest.mark.parametrize("group", ["phi = 0.5", 'on_drop = "next_tick"'])
def test_with_a_tick_of_the_group_the_strategy_needs_no_interval(tmp_path: Path, group: str) -> None:
    assert device(tmp_path, f"{group}\ntick = 0.75", strategy='strategy = "fedavg"').tick == 0.75


@pytest.mark.parametrize("group", ["phi = 0.5", 'on_drop = "next_tick"'])
def test_ticks_of_unknown_length_are_refused_with_the_remedy(tmp_path: Path, group: str) -> None:
    plain = 'count = 2\n[[devices]]\nprofile = "rpi5"\n'
    message = refusal(tmp_path, plain + group, strategy='strategy = "fedasync"')
    assert message.startswith(f"{tmp_path}/mine.toml: devices[1].tick is missing; ")
    assert "fedasync has no interval: set it, or use a strategy with an interval" in message


def test_a_tick_must_be_longer_than_0(tmp_path: Path) -> None:
    message = refusal(tmp_path, 'on_drop = "next_tick"\ntick = 0')
    assert message.startswith(f"{tmp_path}/mine.toml: devices[0].tick is 0")
    assert "at least 0.001" in message


# ---- lost downloads


PLAIN = 'strategy = "fedasync"'


@pytest.mark.parametrize(
    ("strategy", "group", "does"),
    [
        (PLAIN, "", "wait"),
        (AUDG, "", "old_base"),
        (AUDG.replace("audg", "psurdg"), "phi = 0.5", "old_base"),
        (AUDG, 'on_drop = "give_up"', "wait"),
        (PLAIN, 'on_drop = "next_tick"\ntick = 1', "wait"),
    ],
)
def test_by_default_a_device_continues_from_the_old_base_under_a_strategy_with_ticks_and_else_waits(
    tmp_path: Path, strategy: str, group: str, does: str
) -> None:
    assert device(tmp_path, group, strategy=strategy).on_lost_download == does


@pytest.mark.parametrize("strategy", [AUDG, PLAIN])
@pytest.mark.parametrize("does", ["wait", "old_base"])
def test_the_profile_decides_what_follows_a_lost_download(tmp_path: Path, strategy: str, does: str) -> None:
    assert device(tmp_path, f'on_lost_download = "{does}"', strategy=strategy).on_lost_download == does


def test_old_base_and_give_up_exclude_each_other(tmp_path: Path) -> None:
    message = refusal(tmp_path, 'on_lost_download = "old_base"\non_drop = "give_up"')
    assert message.startswith(
        f"{tmp_path}/mine.toml: devices[0].on_lost_download is old_base, but with on_drop = give_up"
    )
    assert "use retry or next_tick" in message
    message = refusal(tmp_path, 'on_drop = "give_up"', "devices[0].on_lost_download=old_base")
    assert message.startswith("--set devices[0].on_lost_download=old_base: devices[0].on_lost_download is old_base")


def test_an_unknown_value_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    message = refusal(tmp_path, 'on_lost_download = "oldbase"')
    assert "devices[0].on_lost_download is 'oldbase'; did you mean 'old_base'?" in message


# ---- stored profiles


@pytest.mark.parametrize(
    "group",
    [
        "phi = 0.5",
        'on_drop = "next_tick"\ntick = 0.75\ndrop = 0.25',
        'phi = 0.5\non_lost_download = "wait"',
        'on_drop = "next_tick"\non_lost_download = "old_base"',
        'on_drop = "give_up"\ndrop = 0.25',
    ],
)
def test_a_stored_profile_loads_to_the_same_experiment(tmp_path: Path, group: str) -> None:
    experiment = load(tmp_path, group, "strategy.interval=1.5", "stop={seconds = 5, patience = 3}")
    folder = RunFolder.new(tmp_path, experiment.name, datetime(2024, 1, 2, 3, 4, 5))
    folder.write_profile(experiment)
    again = profile_loader.load(folder.path / "profile.toml")
    assert again == experiment
    assert fleet.concrete(again, Survey()) == fleet.concrete(experiment, Survey())
