"""Options of the command line, as frozen dataclasses.

Each command has a dataclass of its options, and a function that takes one. A field has the name of an attribute of the
parsed ``argparse.Namespace``; a field whose type is a dataclass groups options that several commands share.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_type_hints

from testbed.learning.data import folders

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from testbed.profile.schema import Experiment

Options = TypeVar("Options", bound="DataclassInstance")
Command: TypeAlias = Callable[[argparse.Namespace], int]
"""Takes the parsed words of a command line and returns the exit code."""


def command(cls: type[Options], carry_out: Callable[[Options], int]) -> Command:
    """Return the command that ``carry_out`` does, which takes the options as ``cls`` and returns the exit code."""
    return lambda namespace: carry_out(parsed(cls, namespace))


def parsed(cls: type[Options], namespace: argparse.Namespace) -> Options:
    """Return the options as ``cls``; a field that is a dataclass itself is filled from the same namespace."""
    hints = get_type_hints(cls)
    return cls(**{field.name: _value(field.name, hints[field.name], namespace) for field in dataclasses.fields(cls)})


def _value(name: str, hint: Any, namespace: argparse.Namespace) -> Any:
    if dataclasses.is_dataclass(hint):
        return parsed(hint, namespace)  # type: ignore[arg-type]
    value = getattr(namespace, name)
    return tuple(value) if isinstance(value, list) else value


# ---- which experiment: run, plan, data


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    profile: Path
    seed: int | None
    seconds: float | None
    strategy: str | None
    dilation: float | str | None
    replay: str | None
    replay_mode: str | None
    clock: str | None
    compute: str | None
    overrides: tuple[str, ...]
    """``KEY=VALUE`` of each --set."""
    data_dir: Path | None


def experiment(options: ExperimentOptions, *, compress: bool | None = None) -> Experiment:
    """Load the experiment with the changes that the options ask for. Raises UserError."""
    from testbed.common.finders import user_modules
    from testbed.loading import profile_files, profile_loader

    use_data_dir(options.data_dir)
    path = profile_files.located(options.profile)
    replaced = {
        "seed": options.seed,
        "stop.seconds": options.seconds,
        "strategy": options.strategy,
        "dilation": options.dilation,
        "compress": compress,
        "replay.trace": options.replay,
        "replay.mode": options.replay_mode,
        "clock": options.clock,
        "compute": options.compute,
    }
    given = {key: value for key, value in replaced.items() if value is not None}
    user_modules.FINDER.search_in(Path.cwd(), path.parent)
    return profile_loader.load(path, options.overrides, given)


# ---- how it is executed: run, resume


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    quiet: bool
    format: str

    @property
    def as_json(self) -> bool:
        return self.format == "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    no_admission: bool
    survey: str | None
    no_report: bool
    output: OutputOptions


def use_data_dir(data_dir: Path | None) -> None:
    """Make ``data_dir`` the folder of data sets in this process and in all that it starts. Raises UserError."""
    if data_dir is not None:
        os.environ[folders.FOLDER] = str(folders.given(data_dir))


def use_survey(choice: str | None) -> None:
    """Let ``new`` or ``remembered`` hold in this process and in all that it starts."""
    from testbed.host import survey_memory

    if choice is not None:
        os.environ[survey_memory.CHOICE] = choice
