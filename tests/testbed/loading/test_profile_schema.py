"""The JSON schemas of profiles: they accept what the loader accepts, and refuse what is wrong with a single key."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from aggregator.strategies import STRATEGIES
from testbed.common.errors import ProfileError, UserError
from testbed.common.json_text import json_text
from testbed.common.parameters import as_table, build
from testbed.learning.splits import SPLITS
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.recipe import Recipe
from testbed.loading import profile_loader
from testbed.loading.profile_files import SHIPPED
from testbed.loading.profile_schema import device_schema, experiment_schema, link_schema
from testbed.loading.renamed_keys import RENAMED_KEYS
from testbed.profile.schema import DeviceProfile, LinkProfile
from tests.testbed.examples import MINIMAL, write_profile

ROOT = Path(__file__).parents[3]
STORED = ROOT / "tests/fixtures/schema4/delays/profile.toml"
KINDS = {"experiment": experiment_schema, "device": device_schema, "link": link_schema}
LISTS = {"experiment": "keys", "device": "devices", "link": "links"}
SCHEMAS = {kind: json.loads(json_text(schema())) for kind, schema in KINDS.items()}
FLEET = 'devices = [{ profile = "rpi4", count = 5, seconds_per_sample = 0.1 }]\n'
REQUIRED = {
    "audg": "interval = 1.0",
    "psurdg": "interval = 1.0",
    "sizes": "sizes = [1, 1, 1, 1]",
    "csv": 'file = "own.csv", label = "kind"',
    "npz": 'file = "own.npz"',
    "images": 'folder = "own"',
    "huggingface": 'folder = "own"',
}
"""Parameters without a default, by the name of the strategy, split or task."""


def errors(table: dict[str, Any], kind: str = "experiment") -> dict[str, str]:
    """Return the place of each error → its text."""
    found = jsonschema.Draft7Validator(SCHEMAS[kind]).iter_errors(table)
    return {error.json_path: error.message for error in found}


def shipped(folder: str) -> list[Path]:
    found = sorted((SHIPPED / folder).rglob("*.toml"))
    assert found
    return found


def name_of(path: Path) -> str:
    return path.relative_to(SHIPPED).as_posix()


def table_of(name: str) -> str:
    """Return the shortest table that names a strategy, task or split."""
    return f'{{ name = "{name}", {REQUIRED[name]} }}' if name in REQUIRED else f'{{ name = "{name}" }}'


def accepted(folder: Path, text: str) -> None:
    """Check that loader and schema accept a profile, and the schema also what the loader makes of it."""
    resolved = profile_loader.load(write_profile(folder, text))
    assert errors(tomllib.loads(text)) == {}
    assert errors(json.loads(json.dumps(as_table(resolved)))) == {}


# ---- the schemas themselves


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid(kind: str) -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMAS[kind])
    assert SCHEMAS[kind]["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize("kind", KINDS)
def test_the_shipped_schema_is_up_to_date(kind: str) -> None:
    path = SHIPPED / "schema" / f"{kind}.json"
    remedy = f"update it: run_testbed.py list {LISTS[kind]} --format json-schema > {path.relative_to(ROOT)}"
    assert path.read_text(encoding="utf-8") == json_text(KINDS[kind]()) + "\n", remedy


def test_every_reference_leads_to_a_definition() -> None:
    text = json.dumps(SCHEMAS["experiment"])
    used = {part.partition('"')[0] for part in text.split('"$ref": "#/definitions/')[1:]}
    assert used == set(SCHEMAS["experiment"]["definitions"])


def test_nothing_stands_beside_a_reference() -> None:
    """In draft 7, it would have no effect."""

    def check(part: Any) -> None:
        if isinstance(part, dict):
            assert "$ref" not in part or len(part) == 1
        for below in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            check(below)

    check(SCHEMAS["experiment"])


def test_the_quickstart_names_the_schema() -> None:
    path = SHIPPED / "experiments/quickstart.toml"
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert (path.parent / first.removeprefix("#:schema ")).resolve() == SHIPPED / "schema/experiment.json"


# ---- valid profiles


@pytest.mark.parametrize("path", shipped("experiments"), ids=name_of)
def test_a_shipped_experiment_is_accepted_as_it_is_and_with_all_defaults(path: Path) -> None:
    assert errors(tomllib.loads(path.read_text(encoding="utf-8"))) == {}
    resolved = json.loads(json.dumps(as_table(profile_loader.load(path))))
    assert errors(resolved) == {}


@pytest.mark.parametrize("path", [*shipped("devices"), *shipped("links")], ids=name_of)
def test_a_shipped_device_or_link_is_accepted(path: Path) -> None:
    kind = path.parent.name.removesuffix("s")
    assert errors(tomllib.loads(path.read_text(encoding="utf-8")), kind) == {}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_is_accepted_with_its_defaults(tmp_path: Path, name: str) -> None:
    cell = "cell = {}\n" if STRATEGIES[name].grants else ""
    accepted(tmp_path, f"strategy = {table_of(name)}\n{cell}{FLEET}")


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_accepted_with_its_defaults(tmp_path: Path, name: str) -> None:
    tasks = [table_of(name)] if name in REQUIRED else [f'"{name}"', table_of(name)]
    if issubclass(TASKS[name], Recipe):
        tasks.append(table_of(name).replace(" }", ", split = {} }"))
    for task in tasks:
        accepted(tmp_path, f'strategy = "fedavg"\ntask = {task}\n{FLEET}')


@pytest.mark.parametrize("name", SPLITS)
def test_every_split_is_accepted_with_its_defaults(tmp_path: Path, name: str) -> None:
    accepted(tmp_path, f'strategy = "fedavg"\ntask = {{ name = "digits", split = {table_of(name)} }}\n{FLEET}')


@pytest.mark.parametrize("name", [*STRATEGIES, *SPLITS])
def test_a_name_alone_is_accepted_if_no_parameter_is_required(tmp_path: Path, name: str) -> None:
    cell = "cell = {}\n" if name in STRATEGIES and STRATEGIES[name].grants else ""
    split = name if name in SPLITS else "iid"
    strategy = name if name in STRATEGIES else "fedavg"
    text = f'strategy = "{strategy}"\ntask = {{ name = "digits", split = "{split}" }}\n{cell}{FLEET}'
    if name in REQUIRED:
        with pytest.raises(ProfileError, match="is missing"):
            profile_loader.load(write_profile(tmp_path, text))
        assert set(errors(tomllib.loads(text))) == {"$.strategy" if name in STRATEGIES else "$.task.split"}
    else:
        accepted(tmp_path, text)


ACCEPTED = {
    "the shortest profile": MINIMAL,
    "a word as dilation": f'dilation = "auto"\n{MINIMAL}',
    "a whole number as dilation": f"dilation = 2\n{MINIMAL}",
    "a number of restarts": f"{MINIMAL}[presence]\nrestart = 3",
    "parameters of the default split": f'task = {{ name = "digits", split = {{ alpha = 2 }} }}\n{MINIMAL}',
    "a task of a module": f'task = "testbed.learning.tasks.smaller_tasks:SmallFemnist"\n{MINIMAL}',
    "parameters of a task of a module": (
        f'task = {{ name = "testbed.learning.tasks.smaller_tasks:SmallFemnist", filters = 4 }}\n{MINIMAL}'
    ),
    "an inline device and link": (
        'strategy = "fedavg"\n[[devices]]\nname = "x"\n'
        "profile = { clock_hz = 1e9, cycles_per_sample = { digits = 5 } }\n"
        "link = { up = { mbit = 1 }, power = { transmit = 1, receive = 1 } }"
    ),
    "a schedule and an event": (
        'strategy = "fedavg"\nevents = [{ at = 1, device = "*", do = "suspend", seconds = 1 }]\n'
        '[[devices]]\nprofile = "rpi4"\nschedule = [{ at = 0, speed = 0.5 }]'
    ),
    "old names of keys": f"{MINIMAL}[transport]\nrate = 50\n[presence]\nbeat = 0.5",
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_valid_profile_is_accepted(tmp_path: Path, case: str) -> None:
    accepted(tmp_path, ACCEPTED[case])


def test_a_path_of_a_device_and_of_a_link_is_accepted(tmp_path: Path) -> None:
    write_profile(tmp_path, "seconds_per_sample = 1", "board.toml")
    write_profile(tmp_path, "up = { mbit = 1 }", "radio.toml")
    accepted(tmp_path, 'strategy = "fedavg"\ndevices = [{ profile = "board.toml", link = "radio.toml" }]')


def test_the_profile_of_an_old_run_folder_is_accepted() -> None:
    assert errors(tomllib.loads(STORED.read_text(encoding="utf-8"))) == {}


def test_old_names_of_keys_are_marked_and_not_suggested() -> None:
    for old in RENAMED_KEYS:
        section, _, name = old.partition(".")
        schema = SCHEMAS["experiment"]["properties"][section]["properties"][name]
        assert schema["deprecated"] is True
        assert schema["x-taplo"] == {"hidden": True}


# ---- wrong profiles

STRATEGY = 'strategy = "fedavg"\n'
DEVICES = 'devices = [{ profile = "rpi4" }]\n'
REFUSED = {
    "an unknown key": (f"sed = 1\n{MINIMAL}", "$"),
    "an unknown key in a table": (f"{MINIMAL}[training]\nsteps_ = 1", "$.training"),
    "an unknown key in a list": (f'{STRATEGY}devices = [{{ profile = "rpi4", cuont = 1 }}]', "$.devices[0]"),
    "a value below its range": (f"seed = -1\n{MINIMAL}", "$.seed"),
    "a value above its range": (f"{MINIMAL}[transport]\nport = 65536", "$.transport.port"),
    "the open end of a range": (f'{STRATEGY}devices = [{{ profile = "rpi4", drop = 1.0 }}]', "$.devices[0].drop"),
    "the open start of a range": (f"{MINIMAL}[training]\nlr = 0", "$.training.lr"),
    "a wrong choice": (f'{STRATEGY}devices = [{{ profile = "rpi4", on_drop = "x" }}]', "$.devices[0].on_drop"),
    "a wrong word instead of a number": (f'dilation = "fast"\n{MINIMAL}', "$.dilation"),
    "a wrong number instead of a word": (f"dilation = 0\n{MINIMAL}", "$.dilation"),
    "a wrong parameter of a strategy": (f'strategy = {{ name = "fedavg", lam = 1 }}\n{DEVICES}', "$.strategy"),
    "a parameter of a strategy out of range": (
        f'strategy = {{ name = "asyncfeded", lam = 0 }}\n{DEVICES}',
        "$.strategy.lam",
    ),
    "a missing parameter of a strategy": (f'strategy = {{ name = "audg" }}\n{DEVICES}', "$.strategy"),
    "an unknown strategy": (f'strategy = "fedavgg"\n{DEVICES}', "$.strategy"),
    "an unknown strategy in a table": (f'strategy = {{ name = "fedavgg" }}\n{DEVICES}', "$.strategy.name"),
    "a strategy without a name": (f"strategy = {{ lam = 1 }}\n{DEVICES}", "$.strategy"),
    "a strategy of another type": (f"strategy = 1\n{DEVICES}", "$.strategy"),
    "a relative module": (f'strategy = ".mine:Own"\n{DEVICES}', "$.strategy"),
    "a number as name of a task": (f"task = {{ name = 1 }}\n{MINIMAL}", "$.task.name"),
    "a network of another task": (f'task = {{ name = "digits", model = "vgg11" }}\n{MINIMAL}', "$.task.model"),
    "a wrong parameter of a split": (
        f'task = {{ name = "digits", split = {{ name = "iid", alpha = 1 }} }}\n{MINIMAL}',
        "$.task.split",
    ),
    "a wrong parameter of the default split": (
        f'task = {{ name = "digits", split = {{ per_device = 1 }} }}\n{MINIMAL}',
        "$.task.split",
    ),
    "an unknown split": (f'task = {{ name = "digits", split = "idd" }}\n{MINIMAL}', "$.task.split"),
    "no strategy": (DEVICES, "$"),
    "no devices": (STRATEGY, "$"),
    "a group without a profile": (f"{STRATEGY}devices = [{{ count = 2 }}]", "$.devices[0]"),
    "an event without a moment": (f'events = [{{ device = "*", do = "kill" }}]\n{MINIMAL}', "$.events[0]"),
    "an unknown device": (f'{STRATEGY}devices = [{{ profile = "rpi44" }}]', "$.devices[0].profile"),
    "an unknown link": (f'{STRATEGY}devices = [{{ profile = "rpi4", link = "wfi" }}]', "$.devices[0].link"),
    "a wrong key of an inline device": (
        f'{STRATEGY}devices = [{{ name = "x", profile = {{ clock = 1e9 }} }}]',
        "$.devices[0].profile",
    ),
    "a wrong value in an inline link": (
        f'{STRATEGY}devices = [{{ profile = "rpi4", link = {{ up = {{ mbit = 0 }} }} }}]',
        "$.devices[0].link.up.mbit",
    ),
    "a string for a number": (f'seed = "1"\n{MINIMAL}', "$.seed"),
    "a boolean for a number": (f"seed = true\n{MINIMAL}", "$.seed"),
    "a fraction for a whole number": (f"seed = 1.5\n{MINIMAL}", "$.seed"),
    "a table for a list": (f'{STRATEGY}devices = {{ profile = "rpi4" }}', "$.devices"),
    "a number for a table": (f"training = 1\n{MINIMAL}", "$.training"),
    "a wrong value of an old key": (f"{MINIMAL}[transport]\nrate = 1", "$.transport.rate"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_profile_is_refused_by_the_loader_and_by_the_schema_at_its_place(tmp_path: Path, case: str) -> None:
    text, place = REFUSED[case]
    with pytest.raises(UserError):
        profile_loader.load(write_profile(tmp_path, text))
    assert set(errors(tomllib.loads(text))) == {place}


WRONG_PARTS: dict[str, tuple[str, type[Any], dict[str, Any], str]] = {
    "an unknown key of a device": ("device", DeviceProfile, {"titel": "x"}, "$"),
    "a wrong choice of a device": ("device", DeviceProfile, {"throttle": "x"}, "$.throttle"),
    "a missing key of the power": ("device", DeviceProfile, {"power": {"idle": 1}}, "$.power"),
    "an unknown key of a link": ("link", LinkProfile, {"both": {}}, "$"),
    "a value of a link out of range": ("link", LinkProfile, {"up": {"drop": 1}}, "$.up.drop"),
}


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_a_wrong_device_or_link_is_refused_by_the_loader_and_by_the_schema(case: str) -> None:
    kind, cls, table, place = WRONG_PARTS[case]
    with pytest.raises(ProfileError):
        build(cls, table, "test")
    assert set(errors(table, kind)) == {place}


def test_the_error_about_a_parameter_names_it() -> None:
    (message,) = errors(tomllib.loads(f'strategy = {{ name = "fedavg", lam = 1 }}\n{DEVICES}')).values()
    assert message == "Additional properties are not allowed ('lam' was unexpected)"
