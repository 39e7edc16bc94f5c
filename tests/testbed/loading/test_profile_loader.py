"""Valid profiles: the shipped ones, precedence, overrides, and stored profiles."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from testbed.host.survey import Survey
from testbed.learning import models
from testbed.loading import profile_files, profile_loader
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import DeviceProfile, Experiment, LinkProfile, Phase
from testbed.runs.run_folder import RunFolder
from tests.testbed.examples import MINIMAL, write_profile

QUICKSTART = profile_files.SHIPPED / "experiments" / "quickstart.toml"


def load(folder: Path, *overrides: str, text: str = MINIMAL, **replaced: Any) -> Experiment:
    return profile_loader.load(write_profile(folder, text), overrides, replaced)


def concrete(experiment: Experiment) -> list[DeviceSpec]:
    """Return the devices. Their speeds are all given in seconds per sample, so no survey is needed."""
    return fleet.concrete(experiment, Survey())


@pytest.mark.parametrize("name", profile_files.catalogue("devices"))
def test_a_shipped_device_has_a_title_a_speed_and_a_source(name: str) -> None:
    device = profile_files.named(DeviceProfile, "devices", name, "test", "profile", Path())
    assert device.title
    assert device.source
    assert device.throttle == "none" or device.seconds_per_sample.keys() == models.NETWORKS.keys()
    assert device.power is None or device.power.source


@pytest.mark.parametrize("name", profile_files.catalogue("links"))
def test_a_shipped_link_has_a_title_and_a_source(name: str) -> None:
    link = profile_files.named(LinkProfile, "links", name, "test", "link", Path())
    assert link.title
    assert link.source
    assert name == "none" or (link.up.mbit is not None and link.down.mbit is not None)
    assert name == "none" or (link.power is not None and link.power.source)


@pytest.mark.parametrize("name", profile_files.catalogue("experiments"))
def test_a_shipped_experiment_resolves_to_a_fleet(name: str) -> None:
    experiment = profile_loader.load(profile_files.SHIPPED / "experiments" / f"{name}.toml")
    assert concrete(experiment)


def test_the_catalogue_has_the_documented_names() -> None:
    promised = {"rpi3bplus", "rpi4", "rpi5", "jetson-nano", "phone-low", "phone-mid", "phone-high", "host"}
    assert promised <= set(profile_files.catalogue("devices"))
    assert {"ethernet", "wifi", "lte", "5g", "3g", "none"} <= set(profile_files.catalogue("links"))


def test_quickstart_has_eight_devices_of_five_kinds() -> None:
    devices = concrete(profile_loader.load(QUICKSTART))
    assert [device.name for device in devices] == [
        "rpi3bplus-1",
        "rpi4-1",
        "rpi4-2",
        "jetson-nano-1",
        "jetson-nano-2",
        "phone-low-1",
        "phone-low-2",
        "rpi3bplus-2",
    ]
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
    first, second = concrete(load(tmp_path, text=text))
    assert (first.name, second.name) == ("pi-1", "pi-2")
    assert (first.up.drop, first.down.drop) == (0.25, 0.25)
    assert first.up.mbit == 50
    assert (first.suspend, first.suspend_max, first.on_drop, first.seconds_per_sample) == (0.5, 2.0, "give_up", 0.01)


def test_a_speed_may_be_one_number_for_all_tasks_and_the_group_overrides_the_profile(tmp_path: Path) -> None:
    text = """
    strategy = "fedavg"
    devices = [{ profile = { seconds_per_sample = 0.5 }, name = "a" },
               { profile = "rpi4", seconds_per_sample = { digits = 0.25, "digits:cnn" = 0.75 } },
               { profile = "rpi4", clock_hz = 2.0e9, cycles_per_sample = 1.0e9 }]
    """
    assert [device.seconds_per_sample for device in concrete(load(tmp_path, text=text))] == [0.5, 0.25, 0.5]


def test_a_group_defines_suspensions_and_a_schedule_of_speed(tmp_path: Path) -> None:
    text = """
    strategy = "fedavg"
    [[devices]]
    profile = "rpi4"
    suspend_by = "signal"
    schedule = [{ at = 0, speed = 1.5 }, { at = 20, speed = 0.5 }]
    schedule_period = 60
    """
    (device,) = concrete(load(tmp_path, text=text))
    assert device.suspend_by == "signal"
    assert device.schedule == (Phase(at=0.0, speed=1.5), Phase(at=20.0, speed=0.5))
    assert device.schedule_period == 60.0
    (plain,) = concrete(load(tmp_path))
    assert (plain.suspend_by, plain.schedule, plain.schedule_period, plain.throttle) == ("hold", (), None, "pace")


def test_a_device_has_the_index_of_its_group(tmp_path: Path) -> None:
    text = 'strategy = "fedavg"\ndevices = [{ profile = "rpi4", count = 2 }, { profile = "rpi5" }]'
    assert [device.group for device in concrete(load(tmp_path, text=text))] == [0, 0, 1]


def test_names_of_devices_do_not_need_a_survey(tmp_path: Path) -> None:
    text = 'strategy = "fedavg"\ndevices = [{ profile = "rpi4", count = 2 }, { profile = "host", name = "a" }]'
    assert fleet.names(load(tmp_path, text=text)) == ["rpi4-1", "rpi4-2", "a-1"]


@pytest.mark.parametrize(("text", "dilation"), [("", 1.0), ("dilation = 2", 2.0), ('dilation = "auto"', "auto")])
def test_a_dilation_is_a_number_or_auto(tmp_path: Path, text: str, dilation: float | str) -> None:
    assert load(tmp_path, text=f"{text}\n{MINIMAL}").dilation == dilation
    assert load(tmp_path, text=f"{text}\n{MINIMAL}", dilation=0.25).dilation == 0.25


def test_a_device_that_is_not_throttled_has_no_speed(tmp_path: Path) -> None:
    (device,) = concrete(load(tmp_path, "devices[0].profile=host"))
    assert device.seconds_per_sample is None


def test_devices_of_groups_with_the_same_name_are_numbered_consecutively(tmp_path: Path) -> None:
    # a group "rpi4-1" must not collide with a device, nor a group "evaluator" with the evaluator
    text = """
    strategy = "fedavg"
    devices = [{ profile = "rpi4", count = 2 }, { profile = "rpi5", name = "rpi4" },
               { profile = "rpi4", name = "rpi4-1" }, { profile = "rpi4", name = "evaluator" }]
    """
    names = [device.name for device in concrete(load(tmp_path, text=text))]
    assert names == ["rpi4-1", "rpi4-2", "rpi4-3", "rpi4-1-1", "evaluator-1"]


def test_device_and_link_profiles_may_be_files_next_to_the_experiment_or_tables(tmp_path: Path) -> None:
    write_profile(tmp_path, 'title = "Mine"\nseconds_per_sample = { digits = 0.5 }', "board.toml")
    text = """
    strategy = "fedavg"
    devices = [{ profile = "board.toml", link = { up = { mbit = 2 } } },
               { name = "inline", profile = { seconds_per_sample = { digits = 0.25 } } }]
    """
    board, inline = concrete(load(tmp_path, text=text))
    assert (board.name, board.title, board.seconds_per_sample) == ("board-1", "Mine", 0.5)
    assert (board.up.mbit, board.down.mbit) == (2.0, None)
    assert (inline.name, inline.title, inline.seconds_per_sample) == ("inline-1", "inline", 0.25)


@pytest.mark.parametrize("stop", ["seconds = 5", "versions = 5", "target_accuracy = 0.5", "patience = 5"])
def test_one_stop_condition_is_enough_and_disables_the_default_time(tmp_path: Path, stop: str) -> None:
    experiment = load(tmp_path, text=f"{MINIMAL}[stop]\n{stop}")
    assert experiment.stop.seconds == (5.0 if stop.startswith("seconds") else None)


# ---- precedence


def test_a_key_that_is_not_given_has_its_default(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    assert (experiment.seed, experiment.training.batch, experiment.stop.seconds) == (0, 32, 60.0)
    assert (experiment.task_name, experiment.transport.kind) == ("digits", "ipc")


def test_a_run_is_named_after_its_file_unless_the_file_has_a_name(tmp_path: Path) -> None:
    assert load(tmp_path).name == "mine"
    assert load(tmp_path, text=f'name = "other"\n{MINIMAL}').name == "other"


def test_the_command_line_overrides_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    text = f"seed = 5\n{MINIMAL}\n[training]\nbatch = 8"
    assert load(tmp_path, text=text).seed == 5
    assert load(tmp_path, text=text, seed=6).seed == 6
    assert load(tmp_path, "seed=7", text=text).seed == 7
    overridden = load(tmp_path, "training.lr=0.5", text=text).training
    assert (overridden.batch, overridden.lr) == (8, 0.5)


def test_another_strategy_on_the_command_line_does_not_inherit_parameters(tmp_path: Path) -> None:
    text = 'strategy = { name = "asyncfeded", lam = 0.5 }\ndevices = [{ profile = "rpi4" }]'
    experiment = load(tmp_path, text=text, strategy="fedavg")
    assert experiment.strategy_name == "fedavg"
    assert "lam" not in experiment.strategy_parameters


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
        ("strategy=fedasync", lambda e: e.strategy_name, "fedasync"),
        ("strategy.fraction=0.5", lambda e: (e.strategy_name, e.strategy_parameters["fraction"]), ("fedavg", 0.5)),
        ("task.model=cnn", lambda e: (e.task_name, e.task_parameters["model"]), ("digits", "cnn")),
    ],
)
def test_any_key_can_be_set(tmp_path: Path, override: str, read: Any, value: object) -> None:
    text = 'strategy = "fedavg"\ndevices = [{ profile = "rpi4", link = {} }]'
    assert read(load(tmp_path, override, text=text)) == value


def test_unset_parameters_of_strategy_and_task_are_written_out_with_their_defaults(tmp_path: Path) -> None:
    experiment = load(tmp_path, "strategy=asyncfeded", "task.split=dirichlet", "task.split.alpha=0.25")
    assert experiment.strategy_parameters.keys() >= {"lam", "gamma_bar"}
    assert experiment.task_parameters == {
        "buffers": "average",
        "model": "small-cnn",
        "split": {
            "name": "dirichlet",
            "alpha": 0.25,
            "balanced": False,
            "capped": False,
            "quantity": False,
            "least": 1,
            "short": "fill",
        },
    }


def test_the_last_override_of_a_key_applies(tmp_path: Path) -> None:
    assert load(tmp_path, "seed=1", "seed=2").seed == 2


# ---- stored profiles


@pytest.mark.parametrize("overrides", [(), ("strategy.lam=0.5", "devices[0].profile=host", "stop.target_accuracy=0.9")])
def test_a_stored_profile_loads_to_the_same_experiment(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    experiment = profile_loader.load(QUICKSTART, overrides)
    folder = RunFolder.new(tmp_path, experiment.name, datetime(2024, 1, 2, 3, 4, 5))
    folder.write_profile(experiment)
    again = profile_loader.load(folder.path / "profile.toml")
    assert again == experiment
    assert again.dilation == "auto"
    assert concrete(again) == concrete(experiment)


@pytest.mark.parametrize(("model", "seconds"), [("cnn", 1.3e-3), ("small-cnn", 6e-4)])
def test_a_speed_may_depend_on_the_model(tmp_path: Path, model: str, seconds: float) -> None:
    path = tmp_path / "mine.toml"
    text = f'strategy = "fedavg"\ntask = {{ name = "digits", model = "{model}" }}\ndevices = [{{ profile = "rpi4" }}]'
    path.write_text(text, encoding="utf-8")
    assert concrete(profile_loader.load(path))[0].seconds_per_sample == seconds
