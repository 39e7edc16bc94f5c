"""Invalid profiles: each error names the file, the key, the value and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.loading import profile_loader
from tests.testbed.examples import MINIMAL, write_profile


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        profile_loader.load(path, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


DEVICES = 'devices = [{ profile = "rpi4" }]\n'
STRATEGY = 'strategy = "fedavg"\n'
BAD_FILES = {
    "wrong TOML": ("seed = = 1", ["not valid TOML", "line 1"]),
    "unclosed brackets": ("a = " + "[" * 100_000, ["not valid TOML"]),
    "a number of 5,000 digits": ("seed = " + "9" * 5000, ["not valid TOML"]),
    "a number of 100 digits": (f"seed = 1{'0' * 99}\n{MINIMAL}", ["seed is too large"]),
    "unknown key": (f"sed = 1\n{MINIMAL}", ["sed is not a known key", "did you mean 'seed'"]),
    "unknown key in a table": (f"{MINIMAL}[training]\nsteps_ = 1", ["training.steps_ is not a known", "'steps'"]),
    "unknown key in a list": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", cuont = 1 }}]',
        ["devices[0].cuont is not a known key", "did you mean 'count'"],
    ),
    "unknown device profile": (
        f'{STRATEGY}devices = [{{ profile = "rpi4" }}, {{ profile = "rpi44" }}]',
        ["devices[1].profile is 'rpi44'", "did you mean 'rpi4'"],
    ),
    "unknown link": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", link = "wfi" }}]',
        ["devices[0].link is 'wfi'", "did you mean 'wifi'"],
    ),
    "a path out of the catalogue": (
        f'{STRATEGY}devices = [{{ profile = "../links/wifi" }}]',
        ["devices[0].profile is '../links/wifi'", "known: "],
    ),
    "a missing profile file": (
        f'{STRATEGY}devices = [{{ profile = "board.toml" }}]',
        ["devices[0].profile is 'board.toml'", "there is no file"],
    ),
    "a name too long for any file": (
        f'{STRATEGY}devices = [{{ profile = "{"x" * 300}" }}]',
        ["devices[0].profile is 'xxx", "known: "],
    ),
    "a path too long for any file": (
        f'{STRATEGY}devices = [{{ profile = "{"x" * 300}.toml" }}]',
        ["devices[0].profile is 'xxx", "there is no file"],
    ),
    "negative seed": (f"seed = -1\n{MINIMAL}", ["seed is -1", "at least 0"]),
    "certain drop": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", drop = 1.0 }}]',
        ["devices[0].drop is 1.0", "at least 0 and below 1"],
    ),
    "no device in a group": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", count = 0 }}]',
        ["devices[0].count is 0", "at least 1"],
    ),
    "unknown policy": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", on_drop = "retyr" }}]',
        ["devices[0].on_drop is 'retyr'", "did you mean 'retry'"],
    ),
    "a string for a number": (f'seed = "1"\n{MINIMAL}', ["seed is '1'", "a whole number"]),
    "a boolean for a number": (f"seed = true\n{MINIMAL}", ["seed is True", "a whole number"]),
    "a date for a number": (f"seed = 2024-01-01\n{MINIMAL}", ["seed is datetime.date(2024, 1, 1)", "a whole number"]),
    "nan": (f"{MINIMAL}[training]\nlr = nan", ["training.lr is nan", "finite"]),
    "a table for a list": ('strategy = "fedavg"\ndevices = { profile = "rpi4" }', ["devices is {", "a list"]),
    "an empty list of devices": (f"{STRATEGY}devices = []", ["devices is empty", "at least one device"]),
    "a missing list of devices": (STRATEGY, ["devices is missing", "the fleet"]),
    "no strategy": (DEVICES, ["strategy is missing", "name of a strategy"]),
    "a strategy table without a name": (f"strategy = {{ lam = 1 }}\n{DEVICES}", ["strategy.name is missing"]),
    "a task table with a number as name": (f"task = {{ name = 1 }}\n{MINIMAL}", ["task.name is missing"]),
    "no stop": (
        f"stop = {{}}\n{MINIMAL}",
        ["stop is empty", "stop.seconds, stop.versions, stop.target_accuracy or stop.patience"],
    ),
    "a timeout shorter than two heartbeats": (
        f"{MINIMAL}[presence]\nheartbeat = 2\ntimeout = 3",
        ["presence.timeout", "at least twice presence.heartbeat"],
    ),
    "an inline device without a name": (
        f"{STRATEGY}devices = [{{ profile = {{ throttle = 'none' }} }}]",
        ["devices[0].name is missing"],
    ),
    "unknown task": (f'task = "speech"\n{MINIMAL}', ["task is 'speech'", "known: cifar10, csv, digits"]),
    "no speed for the task": (
        f"{STRATEGY}devices = [{{ name = 'x', profile = {{ seconds_per_sample = {{ speech = 1.0 }} }} }}]",
        ["devices[0].seconds_per_sample is missing", "'digits'", "it has: speech"],
    ),
    "a word as dilation": (f'dilation = "fast"\n{MINIMAL}', ["dilation is 'fast'", "auto"]),
    "a dilation of zero": (f"dilation = 0\n{MINIMAL}", ["dilation is 0", "at least 1e-06 and at most 1e+06"]),
    "unknown throttle": (
        f"{STRATEGY}devices = [{{ name = 'x', profile = {{ throttle = 'cgruop' }} }}]",
        ["devices[0].profile.throttle is 'cgruop'", "did you mean 'cgroup'"],
    ),
    "unknown kind of suspension": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", suspend_by = "sleep" }}]',
        ["devices[0].suspend_by is 'sleep'", "hold"],
    ),
    "no speed at all": (
        f"{STRATEGY}devices = [{{ name = 'x', profile = {{ title = 'X' }} }}]",
        ["devices[0].seconds_per_sample is missing", "clock_hz"],
    ),
    "a path as name of a run": (f'name = "../evil"\n{MINIMAL}', ["name is '../evil'", "without /"]),
    "an empty name of a run": (f'name = ""\n{MINIMAL}', ["name is ''", "at most 100 bytes"]),
    "a path as name of a device": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", name = "a/b" }}]',
        ["devices[0].name is 'a/b'", "without /"],
    ),
    "a name of a device with two lines": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", name = "a\\nb" }}]',
        ["devices[0].name is 'a\\nb'"],
    ),
    "a name of a device too long for a routing id": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", name = "{"é" * 51}" }}]',
        ["devices[0].name is 'éé", "at most 100 bytes"],
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_wrong_file_is_refused_with_file_key_value_and_remedy(tmp_path: Path, case: str) -> None:
    text, fragments = BAD_FILES[case]
    path = write_profile(tmp_path, text)
    message = refusal(path)
    assert message.startswith(f"{path}: ")
    for fragment in fragments:
        assert fragment in message


def test_an_error_in_a_device_profile_names_that_file(tmp_path: Path) -> None:
    board = write_profile(tmp_path, 'titel = "Mine"', "board.toml")
    path = write_profile(tmp_path, f'{STRATEGY}devices = [{{ profile = "board.toml" }}]')
    assert refusal(path).startswith(f"{board}: titel is not a known key; did you mean 'title'?")


def test_a_missing_file_is_refused_with_the_shipped_experiments(tmp_path: Path) -> None:
    path = tmp_path / "quikstart.toml"
    assert refusal(path).startswith(
        f"{path}: no such file; experiments that ship with the project: did you mean 'quick"
    )


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith(f"{tmp_path}: cannot be read: ")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"name = '\xff\xfe'")
    assert refusal(path).startswith(f"{path}: cannot be read: 'utf-8' codec")


BAD_SETTINGS = {
    "seed": ["--set seed", "is not of the form key=value"],
    "=5": ["--set =5", "is not of the form key=value"],
    "devices[7].count=2": ["--set devices[7].count=2", "devices[7].count has no entry '7'", "the list has 1"],
    "devices[-1].count=2": ["has no entry '-1'", "counted from 0"],
    "devices[²].count=2": ["has no entry '²'"],
    "devices.count=2": ["devices.count has no entry 'count'"],
    "seed.x=1": ["--set seed.x=1", "nothing below 5"],
    "sed=1": ["sed is not a known key", "did you mean 'seed'"],
    "training.lr=fast": ["training.lr is 'fast'", "a number"],
    "training.lr=": ["training.lr is ''", "a number"],
    "training.lr=" + "9" * 5000: ["training.lr is '999", "a number"],
    "training.lr=" + "[" * 100_000: ["training.lr is '[[[", "a number"],
    "training=5": ["training is 5", "a table"],
    "devices[0].profile=rpi9": ["devices[0].profile is 'rpi9'", "did you mean 'rpi"],
}


@pytest.mark.parametrize("override", BAD_SETTINGS, ids=lambda text: text[:30])
def test_a_wrong_setting_is_refused_with_key_value_and_remedy(tmp_path: Path, override: str) -> None:
    message = refusal(write_profile(tmp_path, f"seed = 5\n{MINIMAL}"), override)
    for fragment in BAD_SETTINGS[override]:
        assert fragment in message
