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

from testbed.common import plugins
from testbed.learning.data import folders
from testbed.loading import profile_files, profile_loader
from testbed.profile.schema import Experiment

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Options = TypeVar("Options", bound="DataclassInstance")
AS_WRITTEN = argparse.RawDescriptionHelpFormatter
"""Keeps the line breaks of a description."""


def set_command(
    parser: argparse.ArgumentParser, cls: type[Options], carry_out: Callable[[Options], int]
) -> argparse.ArgumentParser:
    """Let ``parser`` select ``carry_out``, which takes the options as ``cls`` and returns the exit code."""
    parser.set_defaults(command=lambda namespace: carry_out(parsed(cls, namespace)))
    return parser


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
    overrides: tuple[str, ...]
    """``KEY=VALUE`` of each --set."""
    data_dir: Path | None


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    add_profile(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="overrides the profile's seed")
    parser.add_argument("--seconds", type=float, metavar="S", help="overrides stop.seconds")
    parser.add_argument("--strategy", metavar="NAME", help="another strategy, with its default parameters")
    parser.add_argument(
        "--dilation",
        type=number_or_word,
        metavar="K|auto",
        help="host seconds per emulated second: above 1 for a host that is too small, below 1 to finish earlier; auto:"
        " 1, or the smallest that this host can keep",
    )
    parser.add_argument("--replay", metavar="RUN", help="repeat the delays, drops and suspensions of a recorded run")
    parser.add_argument(
        "--replay-mode",
        choices=("schedule", "strict"),
        help="schedule: any strategy; strict: the recorded strategy, in the recorded order of arrivals",
    )
    add_overrides(parser, "override any key of the profile, e.g. training.lr=0.1; may be repeated")
    add_data_dir(parser)


def experiment(options: ExperimentOptions, *, compress: bool | None = None) -> Experiment:
    """Load the experiment with the changes that the options ask for. Raises UserError."""
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
    }
    given = {key: value for key, value in replaced.items() if value is not None}
    plugins.make_importable(Path.cwd(), path.parent)
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
    no_report: bool
    output: OutputOptions


def add_execution_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-admission",
        action="store_true",
        help="run even if this host is too small; the certificate shows how exact the timing was",
    )
    parser.add_argument(
        "--no-report", action="store_true", help="do not write report.html; the command report can write it later"
    )
    parser.add_argument("--quiet", action="store_true", help="no live view; only errors, and the run folder at the end")
    add_format(parser, "json: print summary.json to standard output, everything else to standard error")


# ---- single options


def add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "profile", type=Path, metavar="PROFILE.toml", help="the experiment, or the name of a shipped one"
    )


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=meaning)


def add_format(parser: argparse.ArgumentParser, meaning: str = "output format", *more: str) -> None:
    """Add --format; ``more``: formats besides text and JSON."""
    parser.add_argument("--format", choices=("text", "json", *more), default="text", help=meaning)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help=folders.HELP)


def use_data_dir(data_dir: Path | None) -> None:
    """Make ``data_dir`` the folder of data sets in this process and in all that it starts. Raises UserError."""
    if data_dir is not None:
        os.environ[folders.FOLDER] = str(folders.given(data_dir))


def number_or_word(text: str) -> float | str:
    """Return a number if ``text`` is one; the checks of the profile decide which words are allowed."""
    try:
        return float(text)
    except ValueError:
        return text
