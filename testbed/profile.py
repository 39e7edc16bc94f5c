"""Profiles: TOML files, command-line overrides and defaults become one checked experiment and its concrete fleet.

Precedence is command line over file over defaults. Every error names the file, the key, the value and what is
allowed. The resolved experiment is itself a valid profile, catalogue entries written out, so that a stored run can
be run again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from testbed import plugins
from testbed.errors import ProfileError, UserError, nearest
from testbed.messages import Job
from testbed.parameters import build, param

CATALOGUE = Path(__file__).parent.parent / "profiles"
COMMAND_LINE = "command line"
_DEFAULT_TASK = "digits"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One direction of a link."""

    mbit: float | None = param(None, "rate in Mbit/s (10⁶ bit); unset: no limit", above=0)
    delay: float = param(0.0, "base delay in seconds, one way", at_least=0)
    jitter: float = param(0.0, "seconds added to the delay: |N(0, jitter)|", at_least=0)
    spread: float = param(0.0, "σ of the transfer time bytes ÷ rate × N(1, σ)", at_least=0, at_most=1)
    drop: float = param(0.0, "probability that a transfer is lost", at_least=0, below=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """A kind of access network, both directions."""

    title: str = param("", "what it is")
    source: str = param("", "where the figures come from")
    up: Direction = param(Direction(), "device to aggregator")
    down: Direction = param(Direction(), "aggregator to device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Watts by what the device does."""

    idle: float = param(meaning="watts when idle", at_least=0)
    compute: float = param(meaning="watts when computing", at_least=0)
    source: str = param("", "where the figures come from")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """A kind of device."""

    title: str = param("", "what it is")
    source: str = param("", "where the figures come from")
    throttle: str = param("pace", "pace: to seconds_per_sample; none: as fast as the host", choices=("pace", "none"))
    seconds_per_sample: dict[str, float] = param(
        default_factory=dict, meaning="seconds to train on one sample, by task or task:model", above=0
    )
    power: Power | None = param(None, "power model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Devices of one kind on one kind of link, and how they misbehave."""

    profile: str | DeviceProfile = param(meaning="a name from profiles/devices, a path, or a table")
    link: str | LinkProfile = param("ethernet", "a name from profiles/links, a path, or a table")
    count: int = param(1, "how many of them", at_least=1, at_most=10_000)
    name: str | None = param(None, "what they are called, with a number behind; default: the profile's name")
    drop: float | None = param(None, "drop probability, both directions; overrides the link's", at_least=0, below=1)
    suspend: float = param(0.0, "probability that a job is suspended", at_least=0, at_most=1)
    suspend_max: float = param(5.0, "longest suspension in seconds (uniform from 0)", above=0)
    on_drop: str = param(
        "retry", "what a device does when its upload is lost", choices=("retry", "next_tick", "give_up")
    )
    tick: float = param(1.0, "seconds between attempts with on_drop = next_tick", above=0)
    seconds_per_sample: float | None = param(None, "overrides the device profile's", above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWhen:
    """The run ends at whichever of these comes first."""

    seconds: float | None = param(None, "emulated seconds", above=0)
    versions: int | None = param(None, "global versions", at_least=1)
    target_accuracy: float | None = param(None, "accuracy on the test data", above=0, at_most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How processes talk."""

    kind: str = param("ipc", "ipc: unix sockets; tcp: loopback", choices=("ipc", "tcp"))
    port: int = param(0, "TCP port; 0 takes a free one", at_least=0, at_most=65535)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How often models are scored."""

    every: float = param(1.0, "least seconds between two evaluated versions", at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Heartbeats. A lost download is noticed by the next one."""

    beat: float = param(1.0, "seconds between heartbeats", at_least=0.05)
    timeout: float = param(10.0, "a device silent for this many seconds has left", above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Everything a run is made of."""

    name: str = param("", "name of the run folder; default: the file's name")
    seed: int = param(0, "seed of data split, model, batches and faults", at_least=0, below=2**63)
    task: str | dict[str, Any] = param(_DEFAULT_TASK, "a task's name, or a table with name and parameters")
    strategy: str | dict[str, Any] = param(meaning="a rule's name, module:Class, or a table with name and parameters")
    training: Job = param(Job(), "local training")
    stop: StopWhen = param(StopWhen(seconds=60.0), "when the run ends")
    devices: tuple[Group, ...] = param(meaning="the fleet: a list of groups of devices")
    transport: Transport = param(Transport(), "how processes talk")
    evaluation: Evaluation = param(Evaluation(), "how often models are scored")
    presence: Presence = param(Presence(), "heartbeats")

    @property
    def task_name(self) -> str:
        return name_and_parameters(self.task)[0]

    @property
    def task_parameters(self) -> dict[str, Any]:
        return name_and_parameters(self.task)[1]

    @property
    def strategy_name(self) -> str:
        return name_and_parameters(self.strategy)[0]

    @property
    def strategy_parameters(self) -> dict[str, Any]:
        return name_and_parameters(self.strategy)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One concrete device of the fleet."""

    name: str
    index: int
    title: str
    seconds_per_sample: float | None
    up: Direction
    down: Direction
    suspend: float
    suspend_max: float
    on_drop: str
    tick: float


def load(path: Path, overrides: Sequence[str] = (), replaced: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment in ``path``. ``replaced`` are top-level keys from options such as ``--strategy``."""
    table = read_toml(path)
    table.setdefault("name", path.stem)
    table.setdefault("task", _DEFAULT_TASK)  # so that an override of its parameters finds it
    source = str(path)
    given: dict[str, str] = {}
    for key, value in (replaced or {}).items():
        given[key] = f"--{key.rpartition('.')[2]}"
        _put(table, key, value, source=given[key])
    for override in overrides:
        key, sign, text = (part.strip() for part in override.partition("="))
        if not sign or not key:
            raise ProfileError(COMMAND_LINE, f"--set {override}", "is not of the form key=value")
        given[key] = f"--set {override}"
        _put(table, key, _parse(text), source=given[key])
    try:
        return resolve(build(Experiment, table, source), source, path.parent)
    except ProfileError as error:
        if error.key not in given:
            raise
        raise ProfileError(given[error.key], error.key, error.problem) from None


def resolve(experiment: Experiment, source: str, folder: Path) -> Experiment:
    """Catalogue names replaced by what they name; what only shows in the whole is checked here."""
    if not experiment.devices:
        raise ProfileError(source, "devices", "is empty; a run needs at least one device")
    stop = experiment.stop
    if stop.seconds is None and stop.versions is None and stop.target_accuracy is None:
        raise ProfileError(source, "stop", "says nothing; set stop.seconds, stop.versions or stop.target_accuracy")
    if experiment.presence.timeout < 2 * experiment.presence.beat:
        raise ProfileError(source, "presence.timeout", "must be at least twice presence.beat")
    _check_name(experiment.name, source, "name")
    for kind, value in (("task", experiment.task), ("strategy", experiment.strategy)):
        if isinstance(value, dict) and not isinstance(value.get("name"), str):
            raise ProfileError(source, f"{kind}.name", f"is missing; it says which {kind}")
    plugins.find(experiment.task_name, "testbed.tasks", source, "task")  # before its speed is asked for
    groups = []
    for i, group in enumerate(experiment.devices):
        key = f"devices[{i}]"
        profile, link = group.profile, group.link
        name = group.name or (Path(profile).stem if isinstance(profile, str) else None)
        if name is None:
            raise ProfileError(source, f"{key}.name", "is missing; devices with an inline profile need one")
        if isinstance(profile, str):
            profile = named(DeviceProfile, "devices", profile, source, f"{key}.profile", folder)
        if isinstance(link, str):
            link = named(LinkProfile, "links", link, source, f"{key}.link", folder)
        _check_name(name, source, f"{key}.name")
        resolved = replace(group, profile=profile, link=link, name=name)
        _seconds_per_sample(resolved, profile, experiment, source, key)
        groups.append(resolved)
    return replace(experiment, devices=tuple(groups))


def fleet(experiment: Experiment) -> list[DeviceSpec]:
    """The concrete devices of a resolved experiment, in order."""
    devices: list[DeviceSpec] = []
    totals: dict[str, int] = {}
    for group in experiment.devices:
        assert isinstance(group.profile, DeviceProfile)
        assert isinstance(group.link, LinkProfile)
        assert group.name
        up, down = group.link.up, group.link.down
        if group.drop is not None:
            up, down = replace(up, drop=group.drop), replace(down, drop=group.drop)
        for _ in range(group.count):
            totals[group.name] = number = totals.get(group.name, 0) + 1
            devices.append(
                DeviceSpec(
                    name=f"{group.name}-{number}",
                    index=len(devices),
                    title=group.profile.title or group.name,
                    seconds_per_sample=_seconds_per_sample(group, group.profile, experiment, "", ""),
                    up=up,
                    down=down,
                    suspend=group.suspend,
                    suspend_max=group.suspend_max,
                    on_drop=group.on_drop,
                    tick=group.tick,
                )
            )
    return devices


def named(cls: type[T], kind: str, name: str, source: str, key: str, folder: Path) -> T:
    """A device or link profile by catalogue name, or by path relative to the experiment."""
    if name.endswith(".toml"):
        path = folder / name
        if not _is_file(path):
            raise ProfileError(source, key, f"is {name!r}; there is no file {path}")
    else:
        if name not in catalogue(kind):
            raise ProfileError(source, key, f"is {name!r}; {nearest(name, catalogue(kind))}")
        path = CATALOGUE / kind / f"{name}.toml"
    return build(cls, read_toml(path), str(path))


def catalogue(kind: str) -> list[str]:
    """Names of the profiles of a kind (devices, links, experiments) that ship with the project."""
    return sorted(path.stem for path in (CATALOGUE / kind).glob("*.toml"))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        hint = nearest(path.stem, catalogue("experiments"))
        raise UserError(f"{path}: no such file; experiments that ship with the project: {hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # tomllib lets int() and the stack complain in their own words
        raise UserError(f"{path}: not valid TOML: {error}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that may not be entered
        return False


def _check_name(name: str, source: str, key: str) -> None:
    """Run folders, logs and sockets are called by these names."""
    fit = name.isprintable() and "/" not in name and not name.startswith(".") and 0 < len(name.encode()) <= 100
    if not fit:
        raise ProfileError(
            source, key, f"is {name!r}; files are named after it: at most 100 bytes, no / and no . in front"
        )


def _seconds_per_sample(
    group: Group, profile: DeviceProfile, experiment: Experiment, source: str, key: str
) -> float | None:
    """The speed for ``task:model`` where the profile has one, else for ``task``; None for an unpaced device."""
    if profile.throttle == "none":
        return None
    if group.seconds_per_sample is not None:
        return group.seconds_per_sample
    task = experiment.task_name
    for name in (f"{task}:{experiment.task_parameters.get('model')}", task):
        if name in profile.seconds_per_sample:
            return profile.seconds_per_sample[name]
    known = ", ".join(sorted(profile.seconds_per_sample)) or "none"
    problem = f"is missing; the profile has no speed for task {task!r} (it has: {known})"
    raise ProfileError(source, f"{key}.seconds_per_sample", problem)


def name_and_parameters(value: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Of a task or a rule, which a profile gives as a name or as a table."""
    if isinstance(value, str):
        return value, {}
    return value["name"], {key: item for key, item in value.items() if key != "name"}


def _parse(text: str) -> Any:
    """A value as TOML reads it; a bare word is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _put(table: dict[str, Any], key: str, value: Any, *, source: str) -> None:
    """Set ``a.b`` or ``devices[0].count`` in a tree of tables; ``name`` tables grow out of plain names."""
    steps = key.replace("[", ".").replace("]", "").split(".")
    place: Any = table
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(place, list):
            if not step.isdecimal() or int(step) >= len(place):
                raise ProfileError(source, key, f"has no entry {step!r}; the list has {len(place)}, counted from 0")
            step = int(step)  # type: ignore[assignment]
        elif not isinstance(place, dict):
            raise ProfileError(source, key, f"is not a known key: there is nothing below {place!r}")
        if following is None:
            place[step] = value
            return
        if isinstance(place, dict):
            below = place.setdefault(step, {})
            if isinstance(below, str) and step in ("strategy", "task"):
                place[step] = {"name": below}
        place = place[step]
