"""The runs of a sweep: every combination of strategies, varied settings and seeds, all checked before the first run."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from testbed.common.errors import ProfileError, UserError
from testbed.common.files.file_names import file_name
from testbed.common.finders import user_modules
from testbed.common.parameters import as_table
from testbed.loading import profile_files, profile_loader
from testbed.loading.profile_loader import COMMAND_LINE
from testbed.profile.schema import Experiment
from testbed.runs.sweep_state import SweepCell

_LONGEST = 60
_FLAGS = ("compress", "no_admission", "no_report")
_CLOSING = {"[": "]", "{": "}", '"': '"', "'": "'"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """What the user asked for."""

    profile: Path
    strategy: str | None
    """Names with commas between them; None: the profile's strategy."""
    seeds: str | None
    """How many, or which; None: the profile's seed."""
    overrides: tuple[str, ...]
    """``KEY=VALUE``, for every run."""
    vary: tuple[str, ...]
    """``KEY=V1,V2,…``, for all combinations."""
    seconds: float | None
    dilation: float | str | None
    replay: str | None
    compress: bool
    no_admission: bool
    no_report: bool


def plan(settings: SweepSettings) -> list[SweepCell]:
    """Return the runs of a sweep, seeds changing fastest: an interrupted sweep has then finished some strategies.

    Each run's experiment is loaded here, so that a wrong value raises UserError before hours have passed.
    """
    cells = [_cell(settings, choice) for choice in _choices(settings)]
    for cell in cells:
        if sum(cell.name == other.name for other in cells) > 1:
            raise UserError(
                f"two runs of the sweep would be called {cell.name}; name each strategy, seed and value once"
            )
    return cells


def check_unchanged(settings: SweepSettings, cell: SweepCell) -> None:
    """Raise UserError if the profile, which each run reads again, no longer gives the experiment that was planned."""
    choice = next(choice for choice in _choices(settings) if _words(settings, choice) == cell.words)
    try:
        if _digest(_experiment(settings, choice)) == cell.digest:
            return
        reason = "it is another experiment now"
    except UserError as error:
        reason = str(error)
    raise UserError(
        f"{cell.name}: {settings.profile}, or a profile that it names, was changed during the sweep: {reason}; finished"
        " runs are kept: change it back and repeat the command, or start again with another --out"
    )


class _Choice(NamedTuple):
    """The varied settings of one run; None: as the profile says."""

    strategy: str | None
    pairs: tuple[tuple[str, str], ...]
    seed: int | None


def _choices(settings: SweepSettings) -> list[_Choice]:
    strategies: Sequence[str | None] = _listed(settings.strategy, "--strategy") if settings.strategy else (None,)
    seeds: Sequence[int | None] = _seeds(settings.seeds) if settings.seeds else (None,)
    varied = [[(key, value) for value in values] for key, values in map(_varied, settings.vary)]
    return [_Choice(*each) for each in itertools.product(strategies, itertools.product(*varied), seeds)]


def _cell(settings: SweepSettings, choice: _Choice) -> SweepCell:
    experiment = _experiment(settings, choice)
    return SweepCell(
        name=_name(experiment, choice.pairs),
        words=_words(settings, choice),
        digest=_digest(experiment),
        seconds=_seconds(experiment),
    )


def _experiment(settings: SweepSettings, choice: _Choice) -> Experiment:
    replaced = {
        "seed": choice.seed,
        "strategy": choice.strategy,
        "stop.seconds": settings.seconds,
        "replay.trace": settings.replay,
        "dilation": settings.dilation,
        "compress": settings.compress or None,
    }
    path = profile_files.located(settings.profile)
    user_modules.FINDER.search_in(Path.cwd(), path.parent)
    given = {key: value for key, value in replaced.items() if value is not None}
    return profile_loader.load(path, _overrides(settings, choice), given)


def _overrides(settings: SweepSettings, choice: _Choice) -> list[str]:
    return [*settings.overrides, *(f"{key}={value}" for key, value in choice.pairs)]


def _name(experiment: Experiment, pairs: Sequence[tuple[str, str]]) -> str:
    label = experiment.strategy_name + "".join(f"-{key.rpartition('.')[2]}_{value}" for key, value in pairs)
    if len(label) > _LONGEST:  # names of files are limited, and two labels may begin alike
        label = f"{label[: _LONGEST - 9]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
    return f"{file_name(label)}-seed{experiment.seed}"


def _words(settings: SweepSettings, choice: _Choice) -> list[str]:
    """Return the command line of the run, without --out."""
    given = {
        "--strategy": choice.strategy,
        "--seed": choice.seed,
        "--seconds": settings.seconds,
        "--dilation": settings.dilation,
        "--replay": settings.replay,
    }
    words = ["run", str(settings.profile)]
    words += [f"{option}={value}" for option, value in given.items() if value is not None]
    words += [f"--set={override}" for override in _overrides(settings, choice)]
    return words + [f"--{flag.replace('_', '-')}" for flag in _FLAGS if getattr(settings, flag)]


def _digest(experiment: Experiment) -> str:
    """Return a digest of the whole experiment: it changes with the profile, and with the profiles that it names."""
    return hashlib.sha256(json.dumps(as_table(experiment), sort_keys=True).encode()).hexdigest()[:16]


def _seconds(experiment: Experiment) -> float | None:
    """Return the host seconds that the run takes at most, or None if only other conditions stop it."""
    dilation = experiment.dilation if isinstance(experiment.dilation, float) else 1.0
    return None if experiment.stop.seconds is None else experiment.stop.seconds * dilation


# ---- what a user may write


def _seeds(text: str) -> list[int]:
    """Return the seeds: ``5`` means 1 to 5; ``1,2,7`` are the seeds themselves; ``7,`` is a single seed."""
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
        raise ProfileError(COMMAND_LINE, option, f"is {text!r}; it must be comma-separated values")
    return values


def _split(text: str) -> Iterator[str]:
    """Split at commas, but not within the brackets or quotes of one value."""
    begin, open_until, escaped = 0, list[str](), False
    for place, sign in enumerate(text):
        if escaped:
            escaped = False
        elif sign == "\\" and open_until[-1:] == ['"']:
            escaped = True
        elif open_until and sign == open_until[-1]:
            open_until.pop()
        elif sign in _CLOSING and open_until[-1:] not in (['"'], ["'"]):
            open_until.append(_CLOSING[sign])
        elif sign == "," and not open_until:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]
