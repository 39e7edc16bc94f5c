"""``run_testbed.py theory``: which of AUDG and PSURDG has the lower bound under measured delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.cli import options
from testbed.common.console import TerminalConsole, say, table_cell
from testbed.common.errors import ProfileError
from testbed.common.json_text import json_text
from testbed.common.parameters import describe
from testbed.common.terminal import plain_text
from testbed.loading.profile_loader import COMMAND_LINE
from testbed.theory import prediction
from testbed.theory.bound_constants import Constants
from testbed.theory.bounds import TERMS, Bound
from testbed.theory.prediction_result import (
    MeasuredWinner,
    PredictedByDifference,
    PredictedByTheta,
    Prediction,
    RunBounds,
    VersionScore,
)

_MEANINGS = {name: meaning for name, _, _, meaning in describe(Constants)}
_ALLOWED = {name: allowed for name, _, allowed, _ in describe(Constants)}
_TITLES = {"sfl": "SFL (20)", "audg": "AUDG (21)", "psurdg": "PSURDG (48)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantTexts:
    """The constants as they were written: :func:`_numbers` checks all of them, and reports errors in one line."""

    L: str | None
    mu: str | None
    R: str | None
    G: str | None
    phi: str | None
    eta: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryOptions:
    run: Path
    other: Path | None
    constants: ConstantTexts
    weights: str | None
    format: str


def show(given: TheoryOptions) -> int:
    folders = [folder for folder in (given.run, given.other) if folder is not None]
    found = prediction.predict(folders, _numbers(given.constants), given.weights)
    if given.format == "json":
        plain_text.show_json(json_text(found))
        return 0
    console = TerminalConsole()
    for run in found.runs:
        _show_run(console, run, prediction.STRATEGIES if len(folders) == 1 else (run.strategy,))
    for line in _verdict(found):
        say(console, line)
    for note in found.notes:
        say(console, f"note: {note}")
    return 0


def _numbers(constants: ConstantTexts) -> dict[str, float]:
    """Return the constants as numbers; their ranges are checked later. Raises ProfileError if one is missing."""
    texts = asdict(constants)
    missing = [name for name, text in texts.items() if text is None and name != "eta"]
    if missing:
        names = ", ".join(f"--{name}" for name in missing)
        means = "; ".join(f"{name}: {_MEANINGS[name]}" for name in missing)
        raise ProfileError(COMMAND_LINE, names, f"must be given: a trace does not have them. {means}")
    return {name: _number(name, text) for name, text in texts.items() if text is not None}


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ProfileError(COMMAND_LINE, f"--{name}", f"is {text!r}; it must be a number, {_ALLOWED[name]}") from None


# ---- text


def _show_run(console: Console, run: RunBounds, strategies: Sequence[str]) -> None:
    """Print the delays of the devices, then the bounds term by term."""
    say(
        console,
        f"{run.folder}: {run.strategy}, T = {run.versions} versions, N = {run.devices} devices,"
        f" E|I_t| = {_short(run.mean_heard)}, η = {_short(run.constants.eta)}, λ: {run.weights}",
    )
    console.print(_delays(run))
    console.print(_terms(run.bounds, ("sfl", *strategies)))
    if "audg" in strategies:
        say(console, f"PDD (45) = {_short(run.pdd)}: the part of AUDG's bound that is due to delays alone")


def _delays(run: RunBounds) -> Table:
    table = _table("device", "samples", "λ_i", "heard", "E[τ_i]", "E[τ_i²]", "E[τ_i³]", "max τ_i")
    for row in run.delays:
        name, counts = table_cell(row.device), (str(row.samples), _short(row.weight), str(row.heard))
        table.add_row(name, *counts, *map(_short, row.tau), str(row.max_tau))
    table.add_row("Σ λ_i …", "", "", "", *map(_short, run.tau), "")
    return table


def _terms(bounds: Mapping[str, Bound], names: Sequence[str]) -> Table:
    table = _table("term", *(_TITLES[name] for name in names), "with τ = Σ λ_i E[τ_i], |I| = E|I_t|")
    table.columns[-1].justify = "left"
    for term, formula in TERMS.items():
        values = [bounds[name].terms.get(term) for name in names]
        if any(value is not None for value in values):
            table.add_row(term, *("" if value is None else _short(value) for value in values), Text(formula))
    table.add_row("bound", *(_short(bounds[name].value) for name in names), style="bold")
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(first)
    for column in others:
        table.add_column(column, justify="right")
    return table


def _verdict(found: Prediction) -> list[str]:
    lines = [f"predicted: {_predicted(found.predicted)}"]
    if found.measured is not None:
        lines.append(f"measured: {_measured(found.measured)}")
        lines.append(
            {
                True: "prediction and measurement agree",
                False: "prediction and measurement disagree",
                None: "prediction and measurement cannot be compared: one of them has no winner",
            }[found.agree]
        )
    return lines


def _predicted(found: PredictedByTheta | PredictedByDifference) -> str:
    if found.winner is None:
        return f"a tie (both bounds are {_short(found.audg)})"
    values, loser = {"audg": found.audg, "psurdg": found.psurdg}, _other(found.winner)
    bounds = f"its bound {_short(values[found.winner])} is below {loser.upper()}'s {_short(values[loser])}"
    if isinstance(found, PredictedByTheta):
        gap = f"Θ = {_short(found.theta)}"
    else:
        gap = f"PSURDG − AUDG = {_short(found.difference)}"
    return f"{found.winner.upper()} ({bounds}; {gap})"


def _measured(found: MeasuredWinner) -> str:
    scores = f"AUDG: {_score(found.audg)}; PSURDG: {_score(found.psurdg)}"
    if found.winner is not None:
        return f"{found.winner.upper()} has the lower final loss ({scores})"
    if all(score is not None and "loss" in score for score in (found.audg, found.psurdg)):
        return f"a tie, the final losses are the same ({scores})"
    return f"no winner, a final loss is missing ({scores})"


def _score(score: VersionScore | None) -> str:
    if score is None:
        return "no version was scored"
    loss = f"loss {_short(score['loss'])}" if "loss" in score else "no finite loss"
    accuracy = f"accuracy {score['accuracy']:.3f}" if "accuracy" in score else "no accuracy"
    return f"{loss}, {accuracy}, version {score['version']}"


def _other(strategy: str) -> str:
    return next(each for each in prediction.STRATEGIES if each != strategy)


def _short(value: float) -> str:
    return f"{value:.4g}"


COMMAND = options.command(TheoryOptions, show)
