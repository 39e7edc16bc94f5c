"""The runs of a sweep: every combination of rules, varied settings and seeds, checked before the first begins."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from testbed.common import plugins
from testbed.common.errors import ProfileError, UserError
from testbed.common.file_names import file_name
from testbed.common.parameters import as_table
from testbed.loading import profile_files, profile_loader
from testbed.loading.profile_loader import COMMAND_LINE
from testbed.profile.schema import Experiment
from testbed.runs.sweep_state import SweepCell

_LONGEST = 60
_FLAGS = ("compress", "no_admission", "no_report")
_CLOSING = {"[": "]", "{": "}", '"': '"', "'": "'"}


def plan(options: argparse.Namespace) -> list[SweepCell]:
    """Seeds change fastest: after the first few runs, a sweep that is cut short says something about one rule.

    Each cell is loaded as its run will load it, so that a wrong value is told before hours have passed.
    """
    cells = [_cell(options, choice) for choice in _choices(options)]
    for cell in cells:
        if sum(cell.name == other.name for other in cells) > 1:
            raise UserError(f"two runs of the sweep would be called {cell.name}; name each rule, seed and value once")
    return cells


def check_unchanged(options: argparse.Namespace, cell: SweepCell) -> None:
    """A run reads its profile anew. Raises UserError if that is no longer the experiment that was planned."""
    choice = next(choice for choice in _choices(options) if _words(options, choice) == cell.words)
    try:
        if _digest(_experiment(options, choice)) == cell.digest:
            return
        reason = "it is another experiment now"
    except UserError as error:
        reason = str(error)
    raise UserError(
        f"{cell.name}: {options.profile}, or a profile that it names, was changed during the sweep: {reason}; finished"
        " runs are kept: change it back and repeat the command, or begin anew with another --out"
    )


class _Choice(NamedTuple):
    """What one run has of what varies; None is what the profile says."""

    strategy: str | None
    pairs: tuple[tuple[str, str], ...]
    seed: int | None


def _choices(options: argparse.Namespace) -> list[_Choice]:
    strategies: Sequence[str | None] = _listed(options.strategy, "--strategy") if options.strategy else (None,)
    seeds: Sequence[int | None] = _seeds(options.seeds) if options.seeds else (None,)
    varied = [[(key, value) for value in values] for key, values in map(_varied, options.vary)]
    return [_Choice(*each) for each in itertools.product(strategies, itertools.product(*varied), seeds)]


def _cell(options: argparse.Namespace, choice: _Choice) -> SweepCell:
    experiment = _experiment(options, choice)
    return SweepCell(
        name=_name(experiment, choice.pairs),
        words=_words(options, choice),
        digest=_digest(experiment),
        seconds=_seconds(experiment),
    )


def _experiment(options: argparse.Namespace, choice: _Choice) -> Experiment:
    replaced: dict[str, Any] = {"seed": choice.seed, "strategy": choice.strategy, "stop.seconds": options.seconds}
    replaced |= {"replay.trace": options.replay, "dilation": options.dilation, "compress": options.compress or None}
    path = profile_files.located(options.profile)
    plugins.make_importable(Path.cwd(), path.parent)
    given = {key: value for key, value in replaced.items() if value is not None}
    return profile_loader.load(path, _overrides(options, choice), given)


def _overrides(options: argparse.Namespace, choice: _Choice) -> list[str]:
    return [*options.overrides, *(f"{key}={value}" for key, value in choice.pairs)]


def _name(experiment: Experiment, pairs: Sequence[tuple[str, str]]) -> str:
    label = experiment.strategy_name + "".join(f"-{key.rpartition('.')[2]}_{value}" for key, value in pairs)
    if len(label) > _LONGEST:  # a file has no room for many settings, and two runs may begin alike
        label = f"{label[: _LONGEST - 9]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
    return f"{file_name(label)}-seed{experiment.seed}"


def _words(options: argparse.Namespace, choice: _Choice) -> list[str]:
    """Of its command line, without the folder that it goes to."""
    given = {
        "--strategy": choice.strategy,
        "--seed": choice.seed,
        "--seconds": options.seconds,
        "--dilation": options.dilation,
        "--replay": options.replay,
    }
    words = ["run", str(options.profile)]
    words += [f"{option}={value}" for option, value in given.items() if value is not None]
    words += [f"--set={override}" for override in _overrides(options, choice)]
    return words + [f"--{flag.replace('_', '-')}" for flag in _FLAGS if getattr(options, flag)]


def _digest(experiment: Experiment) -> str:
    """Of the experiment with everything written out: another one if its profile, or one that it names, has changed."""
    return hashlib.sha256(json.dumps(as_table(experiment), sort_keys=True).encode()).hexdigest()[:16]


def _seconds(experiment: Experiment) -> float | None:
    """On this host, at most, where that can be known before the host is surveyed."""
    dilation = experiment.dilation if isinstance(experiment.dilation, float) else 1.0
    return None if experiment.stop.seconds is None else experiment.stop.seconds * dilation


# ---- what a user may write


def _seeds(text: str) -> list[int]:
    """``5`` is how many, from 1; ``1,2,7`` are the seeds themselves, and ``7,`` is one of them."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words if word) or not any(words):
        raise ProfileError(COMMAND_LINE, "--seeds", f"is {text!r}; it must be how many, such as 5, or which: 1,2,7")
    if "," in text:
        return [int(word) for word in words if word]
    if int(text) < 1:
        raise ProfileError(COMMAND_LINE, "--seeds", f"is {text}; a sweep needs at least one (the seed 0 is 0,)")
    return list(range(1, int(text) + 1))


def _varied(text: str) -> tuple[str, list[str]]:
    key, sign, values = text.partition("=")
    if not sign or not key.strip():
        raise ProfileError(COMMAND_LINE, f"--vary {text}", "is not of the form key=value,value,…")
    return key.strip(), _listed(values, f"--vary {key}")


def _listed(text: str, option: str) -> list[str]:
    values = [word.strip() for word in _split(text)]
    if not all(values):
        raise ProfileError(COMMAND_LINE, option, f"is {text!r}; it must be values with a comma between each two")
    return values


def _split(text: str) -> Iterator[str]:
    """At commas, but not within the brackets or quotes of one value."""
    begin, awaited = 0, list[str]()
    for place, sign in enumerate(text):
        if awaited and sign == awaited[-1]:
            awaited.pop()
        elif sign in _CLOSING and awaited[-1:] not in (['"'], ["'"]):
            awaited.append(_CLOSING[sign])
        elif sign == "," and not awaited:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]
