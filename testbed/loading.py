"""From TOML files, command-line overrides and defaults to one checked experiment.

Precedence is command line over file over defaults. Every error names the file, the key, the value and what is
allowed. The resolved experiment is itself a valid profile, catalogue entries written out, so that a stored run can
be run again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from testbed import cellcheck, endpoints, fleet, plugins, scriptcheck, speed
from testbed.errors import ProfileError, UserError, nearest
from testbed.parameters import ParameterError, as_table, build
from testbed.profile import (
    DEFAULT_TASK,
    DeviceProfile,
    Experiment,
    Group,
    LinkProfile,
    Replay,
    name_and_parameters,
)
from testbed.traces import locating

CATALOGUE = Path(__file__).parent.parent / "profiles"
COMMAND_LINE = "command line"
_OPTIONS = {"replay.trace": "--replay", "replay.mode": "--replay-mode"}
"""Key → option, where that is not the last word of the key."""

T = TypeVar("T")


def load(path: Path, overrides: Sequence[str] = (), replaced: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment in ``path``. ``replaced`` are top-level keys from options such as ``--strategy``."""
    table = read_toml(path)
    table.setdefault("name", path.stem)
    table.setdefault("task", DEFAULT_TASK)  # so that an override of its parameters finds it
    source = str(path)
    given: dict[str, str] = {}
    for key, value in (replaced or {}).items():
        given[key] = _OPTIONS.get(key) or f"--{key.rpartition('.')[2]}"
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


def located(path: Path) -> Path:
    """The file of an experiment; one that ships with the project is found by its name."""
    name = path.parent / path.stem
    if any(name == shipped for shipped in _experiments()) and not path.exists():
        return CATALOGUE / "experiments" / name.with_suffix(".toml")
    return path


def _experiments() -> Iterator[Path]:
    """Without their suffix; those of a paper lie in a folder of its own."""
    folder = CATALOGUE / "experiments"
    return (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.toml"))


def resolve(experiment: Experiment, source: str, folder: Path) -> Experiment:
    """Catalogue names replaced by what they name; what only shows in the whole is checked here."""
    if not experiment.devices:
        raise ProfileError(source, "devices", "is empty; a run needs at least one device")
    stop = experiment.stop
    if stop.seconds is None and stop.versions is None and stop.target_accuracy is None and stop.patience is None:
        problem = "says nothing; set stop.seconds, stop.versions, stop.target_accuracy or stop.patience"
        raise ProfileError(source, "stop", problem)
    if experiment.presence.timeout < 2 * experiment.presence.beat:
        raise ProfileError(source, "presence.timeout", "must be at least twice presence.beat")
    _check_name(experiment.name, source, "name")
    # with the defaults written out, a stored profile means the same when a default has changed
    experiment = replace(
        experiment,
        task=_task_with_defaults(experiment.task, source),
        strategy=_with_defaults("strategy", "aggregator.strategies", experiment.strategy, source),
    )
    _check_rule(experiment, source)
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
            file = _file("links", link, source, f"{key}.link", folder)
            link = locating.of_link(build(LinkProfile, read_toml(file), str(file)), file.parent, str(file))
        else:
            link = locating.of_link(link, folder, source, f"{key}.link")
        _check_name(name, source, f"{key}.name")
        resolved = locating.of_group(replace(group, profile=profile, link=link, name=name), folder, source, key)
        _check_ticks(resolved, experiment, source, key)
        speed.check(resolved, profile, experiment, source, key)
        groups.append(resolved)
    experiment = replace(experiment, devices=tuple(groups), replay=_found_replay(experiment, groups, source, folder))
    endpoints.check(experiment.transport, source)
    cellcheck.check(experiment, source)
    scriptcheck.check(experiment, fleet.members(experiment), source)
    return experiment


def named(cls: type[T], kind: str, name: str, source: str, key: str, folder: Path) -> T:
    """A device or link profile by catalogue name, or by path relative to the experiment."""
    path = _file(kind, name, source, key, folder)
    return build(cls, read_toml(path), str(path))


def _file(kind: str, name: str, source: str, key: str, folder: Path) -> Path:
    if name.endswith(".toml"):
        path = folder / name
        if not _is_file(path):
            raise ProfileError(source, key, f"is {name!r}; there is no file {path}")
        return path
    if name not in catalogue(kind):
        raise ProfileError(source, key, f"is {name!r}; {nearest(name, catalogue(kind))}")
    return CATALOGUE / kind / f"{name}.toml"


def catalogue(kind: str) -> list[str]:
    """Names of the profiles of a kind (devices, links, experiments) that ship with the project."""
    return sorted(path.stem for path in (CATALOGUE / kind).glob("*.toml"))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        named = path.stem if path.is_absolute() else path.with_suffix("").as_posix()
        hint = nearest(named, sorted(shipped.as_posix() for shipped in _experiments()))
        raise UserError(f"{path}: no such file; experiments that ship with the project: {hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # tomllib lets int() and the stack complain in their own words
        raise UserError(f"{path}: not valid TOML: {error}") from None


def _with_defaults(kind: str, module: str, value: str | dict[str, Any], source: str) -> dict[str, Any]:
    """The table of a rule, task or split, checked, with every parameter."""
    if isinstance(value, dict) and not isinstance(value.get("name"), str):
        raise ProfileError(source, f"{kind}.name", f"is missing; it says which {kind.rpartition('.')[2]}")
    name, parameters = name_and_parameters(value)
    chosen = build(plugins.find(name, module, source, kind), parameters, source, kind)
    return {"name": name, **as_table(chosen)}


def _task_with_defaults(value: str | dict[str, Any], source: str) -> dict[str, Any]:
    table = _with_defaults("task", "testbed.tasks", value, source)
    split, cls = table["split"], plugins.find(table["name"], "testbed.tasks", source, "task")
    if get_type_hints(cls)["split"] != str | dict[str, Any]:
        problem = f"is {table['name']!r}; declare its split as str | dict[str, Any]: a profile gives a name or a table"
        raise ProfileError(source, "task", problem)
    if isinstance(split, dict) and "name" not in split:  # parameters alone are those of the task's usual split
        split = _usual_split(cls) | split
    return table | {"split": _with_defaults("task.split", "testbed.splits", split, source)}


def _usual_split(cls: type[Any]) -> dict[str, Any]:
    (field,) = (field for field in fields(cls) if field.name == "split")
    usual = field.default if field.default_factory is MISSING else field.default_factory()
    name, parameters = name_and_parameters(cast("str | dict[str, Any]", usual))
    return {"name": name, **parameters}


def _check_rule(experiment: Experiment, source: str) -> None:
    """A rule may not fit the fleet: it waits for more updates than there are devices, say."""
    cls = plugins.find(experiment.strategy_name, "aggregator.strategies", source, "strategy")
    rule = build(cls, experiment.strategy_parameters, source, "strategy")
    try:
        rule.check(sum(group.count for group in experiment.devices))
    except ParameterError as error:
        raise ProfileError(source, f"strategy.{error.key}", error.problem) from None
    if experiment.replay.mode == "strict" and rule.unrepeatable:
        problem = f"is strict; {experiment.strategy_name} cannot be repeated so: {rule.unrepeatable}"
        raise ProfileError(source, "replay.mode", f"{problem}: take replay.mode = 'schedule'")
    for i, group in enumerate(experiment.devices):
        if group.on_lost_download == "old_base" and not rule.keeps_old_base:
            problem = f"is old_base; with {experiment.strategy_name}, a device waits until a lost model is sent again"
            raise ProfileError(source, f"devices[{i}].on_lost_download", f"{problem}: take wait")


def _check_ticks(group: Group, experiment: Experiment, source: str, key: str) -> None:
    """What is said about lost transfers must fit together, and fit the rule; ``fleet`` says what follows from it."""
    rule, interval = experiment.strategy_name, experiment.strategy_parameters.get("interval")
    if group.phi is not None and group.on_drop == "give_up":
        problem = "is give_up; an upload with phi is tried once per interval: leave it out"
        raise ProfileError(source, f"{key}.on_drop", problem)
    if group.phi is not None and None not in (group.tick, interval) and group.tick != interval:
        problem = f"is {group.tick:g}; phi is per interval, and {rule} has one of {interval:g}: leave it out"
        raise ProfileError(source, f"{key}.tick", problem)
    if group.on_lost_download == "old_base" and group.on_drop == "give_up":
        problem = "is old_base, with on_drop = give_up; a device that gives up begins anew: take retry or next_tick"
        raise ProfileError(source, f"{key}.on_lost_download", problem)
    if (group.phi is not None or group.on_drop == "next_tick") and group.tick is None and interval is None:
        problem = (
            f"is missing; lost uploads wait for the next tick, and {rule} has no interval: set it, or take a rule with"
            " strategy.interval (audg, psurdg)"
        )
        raise ProfileError(source, f"{key}.tick", problem)


def _found_replay(experiment: Experiment, groups: Sequence[Group], source: str, folder: Path) -> Replay:
    """With the place of the trace written out; what a replay cannot do is refused."""
    replay = experiment.replay
    if replay.trace is None:
        for key, asked in as_table(replay).items():
            if asked != getattr(Replay(), key):
                problem = f"is {asked!r}, but nothing is replayed; add --replay RUN"
                raise ProfileError(source, f"replay.{key}", problem)
        return replay
    for i, group in enumerate(groups):
        assert isinstance(group.profile, DeviceProfile)
        if group.profile.throttle not in ("pace", "none"):
            problem = f"is {group.profile.throttle!r}; a quota keeps no recorded times: a replay needs 'pace'"
            raise ProfileError(source, f"devices[{i}].profile.throttle", problem)
        if replay.mode == "strict" and group.on_drop == "give_up":
            problem = "is give_up; a strict replay knows the order of arrivals only: take replay.mode = 'schedule'"
            raise ProfileError(source, f"devices[{i}].on_drop", problem)
    for place in (Path(replay.trace), folder / replay.trace):
        if _exists(place):
            return replace(replay, trace=str(place.resolve()))
    raise ProfileError(source, "replay.trace", f"is {replay.trace!r}; there is no such run folder or trace")


def _is_file(path: Path) -> bool:
    return _exists(path) and path.is_file()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, a folder that may not be entered
        return False


def _check_name(name: str, source: str, key: str) -> None:
    """Run folders, logs and sockets are called by these names."""
    fit = name.isprintable() and "/" not in name and not name.startswith(".") and 0 < len(name.encode()) <= 100
    if not fit:
        raise ProfileError(
            source, key, f"is {name!r}; files are named after it: at most 100 bytes, no / and no . in front"
        )


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
            if isinstance(below, str) and step in ("strategy", "task", "split"):
                place[step] = {"name": below}
        place = place[step]
