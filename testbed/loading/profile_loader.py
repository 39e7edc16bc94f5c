"""Loads an experiment: TOML file, command-line overrides and defaults become one checked :class:`Experiment`.

The command line takes precedence over the file, the file over the defaults. Every error names the source, the key,
the value and what is allowed. The resolved experiment is a valid profile itself: names from catalogues are replaced by
their content, and defaults are written out, so that a stored run can be repeated.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from aggregator.strategies import STRATEGIES
from testbed.common.by_value.object_name import ObjectName
from testbed.common.errors import ProfileError, nearest
from testbed.common.parameters import Named, ParameterError, TomlTable, as_table, build, checked_value, parameter_of
from testbed.common.plugins import Catalogue
from testbed.learning.splits import SPLITS
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.recipe import Recipe
from testbed.loading import cell_check, script_check
from testbed.loading.clock_check import check_clock
from testbed.loading.experiment_checks import check_name, check_selection, check_strategy, check_ticks, located_replay
from testbed.loading.flower_shorthand import expand_flower_task
from testbed.loading.overrides import parse, put
from testbed.loading.profile_files import file_of, named, read_toml
from testbed.loading.renamed_keys import current_key, upgrade
from testbed.profile import fleet, speed, trace_paths
from testbed.profile.schema import (
    DEFAULT_TASK,
    DeviceGroup,
    DeviceProfile,
    Experiment,
    LinkProfile,
    is_mark,
    name_and_parameters,
)
from testbed.wire import endpoints

T = TypeVar("T")

COMMAND_LINE = "command line"
_OPTIONS = {"replay.trace": "--replay", "replay.mode": "--replay-mode"}
"""Key → option, where the option is not the last part of the key."""


class ProfileChange(NamedTuple):
    """A key of the profile that an option or an argument sets."""

    key: str
    value: Any
    origin: str
    """What errors about this key name as their source, such as ``--seed``."""


def load(path: Path, overrides: Sequence[str] = (), replaced: Mapping[str, Any] | None = None) -> Experiment:
    """Load the experiment in ``path``. Raises UserError.

    ``overrides``: texts such as ``stop.seconds=10``. ``replaced``: keys set by options such as ``--strategy``.
    """
    table = read_toml(path)
    changes = [
        ProfileChange(key, value, _OPTIONS.get(key) or f"--{key.rpartition('.')[2]}")
        for key, value in (replaced or {}).items()
    ]
    changes += [_override(text) for text in overrides]
    return load_table(table, changes, source=str(path), folder=path.parent, name=path.stem)


def load_table(
    table: TomlTable, changes: Sequence[ProfileChange], *, source: str, folder: Path, name: str
) -> Experiment:
    """Return the experiment that a profile's table describes, with its changes. Raises UserError.

    ``source`` is what errors name, ``folder`` that of the files that the profile names, ``name`` the default name.
    """
    upgrade(table)
    table.setdefault("name", name)
    table.setdefault("task", DEFAULT_TASK)  # an override of its parameters needs it
    for change in changes:
        put(table, change.key, change.value, source=change.origin)
    upgrade(table)  # once more: an override may be a whole section
    expand_flower_task(table)
    try:
        return resolve(build(Experiment, table, source), source, folder)
    except ProfileError as error:
        below = f"{error.key}."  # a whole table may be unknown
        concerned = (change for change in reversed(changes) if f"{change.key}.".startswith(below))
        origin = next((change.origin for change in concerned), None)
        if origin is None:
            raise
        raise ProfileError(origin, error.key, error.problem) from None


def _override(text: str) -> ProfileChange:
    """The change that ``--set text`` asks for. Raises ProfileError if it is not of the form key=value."""
    key, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not key:
        raise ProfileError(COMMAND_LINE, f"--set {text}", "is not of the form key=value")
    return ProfileChange(current_key(key), parse(value), f"--set {text}")


def resolve(experiment: Experiment, source: str, folder: Path) -> Experiment:
    """Return the experiment with catalogue names and defaults replaced by their values. Raises ProfileError."""
    if not experiment.devices:
        raise ProfileError(source, "devices", "is empty; a run needs at least one device")
    stop = experiment.stop
    if stop.seconds is None and stop.versions is None and stop.target_accuracy is None and stop.patience is None:
        problem = "is empty; set stop.seconds, stop.versions, stop.target_accuracy or stop.patience"
        raise ProfileError(source, "stop", problem)
    if experiment.presence.timeout < 2 * experiment.presence.heartbeat:
        raise ProfileError(source, "presence.timeout", "must be at least twice presence.heartbeat")
    check_name(experiment.name, source, "name")
    # with all defaults written out, a stored profile keeps its meaning when a default changes
    experiment = replace(
        experiment,
        task=_task_with_defaults(experiment.task, source, folder),
        strategy=_strategy_with_defaults(experiment.strategy, source),
    )
    task = TASKS.find(experiment.task_name, source, "task")
    if task.trains_as_a_whole():
        experiment = replace(experiment, training=replace(experiment.training, whole=True))
    if (wrong := task.check_job(experiment.training)) is not None:
        raise ProfileError(source, f"training.{wrong[0]}", wrong[1])
    check_strategy(experiment, source)
    groups = [_group(group, experiment, source, f"devices[{i}]", folder) for i, group in enumerate(experiment.devices)]
    experiment = replace(experiment, devices=tuple(groups), replay=located_replay(experiment, groups, source, folder))
    endpoints.check(experiment.transport, source)
    check_clock(experiment, source)
    cell_check.check(experiment, source)
    script_check.check(experiment, fleet.members(experiment), source)
    return experiment


def _group(group: DeviceGroup, experiment: Experiment, source: str, key: str, folder: Path) -> DeviceGroup:
    """Return a checked device group that contains its profile and its link."""
    profile, link = group.profile, group.link
    name = group.name or (Path(profile).stem if isinstance(profile, str) else None)
    if name is None:
        raise ProfileError(source, f"{key}.name", "is missing; devices with an inline profile need one")
    if isinstance(profile, str):
        profile = named(DeviceProfile, "devices", profile, source, f"{key}.profile", folder)
    if isinstance(link, str):
        file = file_of("links", link, source, f"{key}.link", folder)
        link = trace_paths.of_link(build(LinkProfile, read_toml(file), str(file)), file.parent, str(file))
    else:
        link = trace_paths.of_link(link, folder, source, f"{key}.link")
    check_name(name, source, f"{key}.name")
    resolved = trace_paths.of_group(replace(group, profile=profile, link=link, name=name), folder, source, key)
    check_ticks(resolved, experiment, source, key)
    speed.check(resolved, profile, experiment, source, key)
    return resolved


def _check_named(kind: str, value: Named, source: str) -> None:
    if not isinstance(value, dict):
        return
    if not isinstance(value.get("name"), str):
        raise ProfileError(source, f"{kind}.name", f"is missing; it must name a {kind.rpartition('.')[2]}")
    if is_mark("object", value.get("object")) and not isinstance(value["name"], ObjectName):
        problem = f"is {value['name']}, a Python object of the process that made it: give it again in Python, as"
        raise ProfileError(source, kind, f"{problem} testbed.run(…, {kind}=…); a class in a file needs only its name")


def _with_defaults(kind: str, catalogue: Catalogue[Any], value: Named, source: str) -> TomlTable:
    """Return the checked table of a strategy or split, with all its parameters."""
    chosen = as_table(_chosen(kind, catalogue, value, source))
    name, _ = name_and_parameters(value)
    return {"name": name, **_mark(name), **chosen}


def _chosen(kind: str, catalogue: Catalogue[T], value: Named, source: str) -> T:
    _check_named(kind, value, source)
    name, parameters = name_and_parameters(value)
    return build(catalogue.find(name, source, kind), parameters, source, kind)


def _mark(name: str) -> TomlTable:
    return {"object": True} if isinstance(name, ObjectName) else {}


def _strategy_with_defaults(value: Named, source: str) -> TomlTable:
    _check_named("strategy", value, source)
    check_selection(value, source)
    return _with_defaults("strategy", STRATEGIES, value, source)


def _object_with_defaults(name: ObjectName, parameters: TomlTable, source: str) -> TomlTable:
    """Return the table of a task that is an object: those of its parameters that a profile can have.

    Parameters that overrides have changed are changed in a copy of the object.
    """
    known = {field.name for field in dataclasses.fields(name.value)}
    changed = {}
    for key, value in parameters.items():
        if key not in known:
            raise ProfileError(source, f"task.{key}", f"is not a parameter of {name}; {nearest(key, known)}")
        if as_table(getattr(name.value, key)) != value:
            changed[key] = checked_value(parameter_of(name.found_class, key), value, source, f"task.{key}")
    if changed:
        task = copy.copy(name.value)
        for key, value in changed.items():
            setattr(task, key, value)
        name = ObjectName(name, task)
    plain = {key: as_table(getattr(name.value, key)) for key in parameters}
    split = _with_defaults("task.split", SPLITS, name.value.split, source)
    return {"name": name, **_mark(name), **plain, "split": split}


def _task_with_defaults(value: Named, source: str, folder: Path) -> TomlTable:
    _check_named("task", value, source)
    name, parameters = name_and_parameters(value)
    if isinstance(name, ObjectName):
        return _object_with_defaults(name, parameters, source)
    chosen = _chosen("task", TASKS, value, source)
    try:
        located = chosen.located(folder)
    except ParameterError as error:
        raise ProfileError(source, f"task.{error.key}", error.problem) from None
    table: TomlTable = {"name": name_and_parameters(value)[0], **as_table(located)}
    if not isinstance(located, Recipe):
        return table
    split = table["split"]
    declared = parameter_of(TASKS.find(table["name"], source, "task"), "split")
    if declared.kind != Named:
        # dict[str, Any] and not TomlTable: the user's class needs no import for it
        problem = f"is {table['name']!r}; its split must be declared as str | dict[str, Any]: a name or a table"
        raise ProfileError(source, "task", problem)
    if isinstance(split, dict) and "name" not in split and not declared.required:
        # a table without a name has parameters of the task's default split
        name, parameters = name_and_parameters(declared.default)
        split = {"name": name, **parameters, **split}
    return table | {"split": _with_defaults("task.split", SPLITS, split, source)}
