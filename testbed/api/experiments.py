"""The experiment that a call of the API asks for: a file, a table or an ``Experiment``, and keyword arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import numpy as np

from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.api.own_classes import check_not_in_a_run, check_travels, chosen
from testbed.common.errors import UserError, nearest
from testbed.common.finders import user_modules
from testbed.common.parameters import as_table
from testbed.common.plugins import Catalogue
from testbed.learning.data import folders
from testbed.learning.tasks import TASKS
from testbed.learning.tasks.recipe import Recipe
from testbed.loading import profile_files, profile_loader
from testbed.loading.profile_loader import ProfileChange
from testbed.loading.renamed_keys import current_key
from testbed.profile.schema import Experiment
from testbed.runs.stored_run import StoredRun

Profile: TypeAlias = str | Path | Mapping[str, object] | Experiment
"""A TOML file, the name of a shipped one, a table with the keys of such a file, or an experiment."""
StrategyChoice: TypeAlias = str | Mapping[str, object] | type[Strategy] | Strategy
TaskChoice: TypeAlias = str | Mapping[str, object] | type[Recipe] | Recipe
"""A name, a table with ``name`` and parameters, a class, or an object of a class."""


_CATALOGUES: Mapping[str, Catalogue[Any]] = {"task": TASKS, "strategy": STRATEGIES}


class Changes(TypedDict, total=False):
    """Changes to a profile, as keyword arguments of ``run`` and ``plan``. None or absent: as the profile says."""

    strategy: StrategyChoice | None
    task: TaskChoice | None
    seed: int | None
    seconds: float | None
    dilation: float | str | None
    replay: str | Path | StoredRun | None
    replay_mode: str | None
    clock: str | None
    compute: str | None
    compress: bool | None
    set: Mapping[str, object] | None


def load(profile: Profile, changes: Changes, data_dir: str | Path | None = None) -> tuple[Experiment, Path | None]:
    """Return the experiment, and its file if it has one. Raises UserError."""
    experiment, path = _loaded(profile, changes, data_dir)
    check_travels(experiment)
    return experiment, path


def _loaded(profile: Profile, changes: Changes, data_dir: str | Path | None) -> tuple[Experiment, Path | None]:
    check_not_in_a_run()
    use_data_dir(data_dir)
    listed = _changes(changes)
    if isinstance(profile, str | Path):
        path = profile_files.located(Path(profile))
        user_modules.FINDER.search_in(Path.cwd(), path.parent)
        table = profile_files.read_toml(path)
        return profile_loader.load_table(
            table, listed, source=str(path), folder=path.parent, name=path.stem
        ), path.resolve()
    user_modules.FINDER.search_in(Path.cwd())
    if isinstance(profile, Experiment):
        table = as_table(profile)
    elif isinstance(profile, Mapping):
        table = {key: _plain(value) for key, value in profile.items()}
        for key, catalogue in _CATALOGUES.items():
            if key in table:
                table[key] = chosen(table[key], catalogue, key)
    else:
        raise UserError(f"profile: is {profile!r}; it must be a file, a table (dict) or an Experiment")
    return profile_loader.load_table(table, listed, source="profile", folder=Path.cwd(), name="experiment"), None


def use_data_dir(data_dir: str | Path | None) -> None:
    """Make ``data_dir`` the folder of data sets in this process and in all that it starts. Raises UserError."""
    if data_dir is not None:
        os.environ[folders.FOLDER] = str(folders.given(Path(data_dir)))


def _changes(given: Changes) -> list[ProfileChange]:
    """The changes that keyword arguments ask for. Raises UserError for an argument that there is not."""
    for name in given:
        if name not in Changes.__annotations__:
            known = nearest(name, Changes.__annotations__)
            raise UserError(f"{name}=: is not an argument; {known}; any key of a profile can be changed by set={{…}}")
    replay = given.get("replay")
    strategy, task = given.get("strategy"), given.get("task")
    named = {
        "seed": ("seed", given.get("seed")),
        "stop.seconds": ("seconds", given.get("seconds")),
        "strategy": ("strategy", None if strategy is None else chosen(strategy, STRATEGIES, "strategy")),
        "task": ("task", None if task is None else chosen(task, TASKS, "task")),
        "dilation": ("dilation", given.get("dilation")),
        "compress": ("compress", given.get("compress")),
        "replay.trace": ("replay", str(replay.path if isinstance(replay, StoredRun) else replay) if replay else None),
        "replay.mode": ("replay_mode", given.get("replay_mode")),
        "clock": ("clock", given.get("clock")),
        "compute": ("compute", given.get("compute")),
    }
    changes = [
        ProfileChange(key, _plain(value), f"{name}=") for key, (name, value) in named.items() if value is not None
    ]
    settings = given.get("set") or {}
    if not isinstance(settings, Mapping):
        raise UserError(f"set={settings!r}: must be a table: {{'training.lr': 0.05}}")
    return changes + [
        ProfileChange(current_key(key), _plain(value), f"set[{key!r}]") for key, value in settings.items()
    ]


def _plain(value: object) -> object:
    """A value as TOML has it: numbers of numpy as those of Python, tables and lists copied."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
