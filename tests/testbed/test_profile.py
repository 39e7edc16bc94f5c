"""Profiles that are right: the shipped ones, precedence, overrides, and the way back to TOML."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from testbed import profile
from testbed.profile import DeviceProfile, Experiment, LinkProfile
from testbed.runfolder import RunFolder
from tests.testbed.examples import MINIMAL, write_profile

QUICKSTART = profile.CATALOGUE / "experiments" / "quickstart.toml"


def load(folder: Path, *overrides: str, text: str = MINIMAL, **replaced: Any) -> Experiment:
    return profile.load(write_profile(folder, text), overrides, replaced)


@pytest.mark.parametrize("name", profile.catalogue("devices"))
def test_a_shipped_device_states_what_it_is_and_how_fast_with_a_source(name: str) -> None:
    device = profile.named(DeviceProfile, "devices", name, "test", "profile", Path())
    assert device.title
    assert device.source
    assert device.throttle == "none" or device.seconds_per_sample["digits"] > 0
    assert device.power is None or device.power.source


@pytest.mark.parametrize("name", profile.catalogue("links"))
def test_a_shipped_link_states_what_it_is_with_a_source(name: str) -> None:
    link = profile.named(LinkProfile, "links", name, "test", "link", Path())
    assert link.title
    assert link.source
    assert name == "none" or (link.up.mbit is not None and link.down.mbit is not None)


@pytest.mark.parametrize("name", profile.catalogue("experiments"))
def test_a_shipped_experiment_resolves_to_a_fleet(name: str) -> None:
    experiment = profile.load(profile.CATALOGUE / "experiments" / f"{name}.toml")
    assert profile.fleet(experiment)


def test_the_first_catalogue_has_the_promised_names() -> None:
    promised = {"rpi3bplus", "rpi4", "rpi5", "jetson-nano", "phone-low", "phone-mid", "phone-high", "host"}
    assert promised <= set(profile.catalogue("devices"))
    assert {"ethernet", "wifi", "lte", "5g", "3g", "none"} <= set(profile.catalogue("links"))


def test_quickstart_has_eight_devices_of_six_kinds() -> None:
    devices = profile.fleet(profile.load(QUICKSTART))
    assert [device.name for device in devices] == [
        "rpi3bplus-1", "rpi4-1", "rpi4-2", "rpi5-1", "jetson-nano-1", "phone-low-1", "phone-low-2", "phone-mid-1",
    ]  # fmt: skip
    assert [device.index for device in devices] == list(range(8))


def test_a_group_becomes_devices_with_its_own_speed_drop_and_suspension(tmp_path: Path) -> None:
    text = """
    strategy = "fedavg"
    [[devices]]
    profile = "rpi4"
    link = "wifi"
    count = 2
    name = "pi"
    drop = 0.25
    suspend = 0.5
    suspend_max = 2.0
    on_drop = "give_up"
    seconds_per_sample = 0.01
    """
    first, second = profile.fleet(load(tmp_path, text=text))
    assert (first.name, second.name) == ("pi-1", "pi-2")
    assert (first.up.drop, first.down.drop) == (0.25, 0.25)
    assert first.up.mbit == 50
    assert (first.suspend, first.suspend_max, first.on_drop, first.seconds_per_sample) == (0.5, 2.0, "give_up", 0.01)


def test_a_device_that_is_not_throttled_has_no_speed(tmp_path: Path) -> None:
    (device,) = profile.fleet(load(tmp_path, "devices[0].profile=host"))
    assert device.seconds_per_sample is None


def test_devices_of_groups_with_the_same_name_are_numbered_through(tmp_path: Path) -> None:
    # "rpi4-1" as a group and as a device must not meet, nor a group with the evaluator's name and the evaluator
    text = """
    strategy = "fedavg"
    devices = [{ profile = "rpi4", count = 2 }, { profile = "rpi5", name = "rpi4" },
               { profile = "rpi4", name = "rpi4-1" }, { profile = "rpi4", name = "evaluator" }]
    """
    names = [device.name for device in profile.fleet(load(tmp_path, text=text))]
    assert names == ["rpi4-1", "rpi4-2", "rpi4-3", "rpi4-1-1", "evaluator-1"]


def test_profiles_of_devices_and_links_may_be_files_beside_the_experiment_or_tables(tmp_path: Path) -> None:
    write_profile(tmp_path, 'title = "Mine"\nseconds_per_sample = { digits = 0.5 }', "board.toml")
    text = """
    strategy = "fedavg"
    devices = [{ profile = "board.toml", link = { up = { mbit = 2 } } },
               { name = "inline", profile = { seconds_per_sample = { digits = 0.25 } } }]
    """
    board, inline = profile.fleet(load(tmp_path, text=text))
    assert (board.name, board.title, board.seconds_per_sample) == ("board-1", "Mine", 0.5)
    assert (board.up.mbit, board.down.mbit) == (2.0, None)
    assert (inline.name, inline.title, inline.seconds_per_sample) == ("inline-1", "inline", 0.25)


# ---- precedence


def test_what_neither_file_nor_command_line_says_has_its_default(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    assert (experiment.seed, experiment.training.batch, experiment.stop.seconds) == (0, 32, 60.0)
    assert (experiment.task_name, experiment.transport.kind) == ("digits", "ipc")


def test_a_run_is_called_after_its_file_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    assert load(tmp_path).name == "mine"
    assert load(tmp_path, text=f'name = "other"\n{MINIMAL}').name == "other"


def test_the_file_goes_before_the_defaults_and_the_command_line_before_the_file(tmp_path: Path) -> None:
    text = f"seed = 5\n{MINIMAL}\n[training]\nbatch = 8"
    assert load(tmp_path, text=text).seed == 5
    assert load(tmp_path, text=text, seed=6).seed == 6
    assert load(tmp_path, "seed=7", text=text).seed == 7
    overridden = load(tmp_path, "training.lr=0.5", text=text).training
    assert (overridden.batch, overridden.lr) == (8, 0.5)


def test_another_rule_on_the_command_line_comes_without_the_parameters_of_the_first(tmp_path: Path) -> None:
    text = 'strategy = { name = "asyncfeded", lam = 0.5 }\ndevices = [{ profile = "rpi4" }]'
    experiment = load(tmp_path, text=text, strategy="fedavg")
    assert (experiment.strategy_name, experiment.strategy_parameters) == ("fedavg", {})


# ---- --set


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("training.lr=0.125", lambda e: e.training.lr, 0.125),
        ("training.lr = 1", lambda e: e.training.lr, 1.0),
        ("devices[0].count=2", lambda e: e.devices[0].count, 2),
        ("devices[0].on_drop=give_up", lambda e: e.devices[0].on_drop, "give_up"),
        ('devices[0].on_drop="give_up"', lambda e: e.devices[0].on_drop, "give_up"),
        ("devices[0].name=a=b", lambda e: e.devices[0].name, "a=b"),
        ("devices[0].link.up.mbit=2", lambda e: e.devices[0].link.up.mbit, 2.0),
        ("stop={versions = 3}", lambda e: (e.stop.versions, e.stop.seconds), (3, None)),
        ("stop.versions=3", lambda e: e.stop.versions, 3),
        ('devices=[{profile="rpi5"}]', lambda e: e.devices[0].name, "rpi5"),
        ("strategy=fedasync", lambda e: e.strategy, "fedasync"),
        ("strategy.alpha=0.5", lambda e: e.strategy, {"name": "fedavg", "alpha": 0.5}),
        ("task.model=cnn", lambda e: e.task, {"name": "digits", "model": "cnn"}),
    ],
)
def test_any_key_can_be_set(tmp_path: Path, override: str, read: Any, value: object) -> None:
    text = 'strategy = "fedavg"\ndevices = [{ profile = "rpi4", link = {} }]'
    assert read(load(tmp_path, override, text=text)) == value


def test_the_last_of_several_settings_of_a_key_holds(tmp_path: Path) -> None:
    assert load(tmp_path, "seed=1", "seed=2").seed == 2


# ---- there and back


@pytest.mark.parametrize("overrides", [(), ("strategy.lam=0.5", "devices[0].profile=host", "stop.target_accuracy=0.9")])
def test_a_stored_profile_loads_to_the_same_experiment(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    experiment = profile.load(QUICKSTART, overrides)
    folder = RunFolder(tmp_path, experiment.name, datetime(2024, 1, 2, 3, 4, 5))
    folder.write_profile(experiment)
    again = profile.load(folder.path / "profile.toml")
    assert again == experiment
    assert profile.fleet(again) == profile.fleet(experiment)


@pytest.mark.parametrize(("model", "seconds"), [("cnn", 2.82e-3), ("small-cnn", 6e-4)])
def test_a_speed_may_depend_on_the_model(tmp_path: Path, model: str, seconds: float) -> None:
    path = tmp_path / "mine.toml"
    text = f'strategy = "fedavg"\ntask = {{ name = "digits", model = "{model}" }}\ndevices = [{{ profile = "rpi4" }}]'
    path.write_text(text, encoding="utf-8")
    assert profile.fleet(profile.load(path))[0].seconds_per_sample == seconds
