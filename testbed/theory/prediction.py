"""Which of AUDG and PSURDG has the lower bound, and which reached the lower loss, as plain values.

For one run, both bounds are computed from the delays that it measured. For two runs, one of each strategy, each bound
is computed from the delays of its own run; the measured winner has the lower loss in its last score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.analysis import trace_reading
from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import build
from testbed.history import trace
from testbed.loading import profile_files
from testbed.loading.profile_loader import COMMAND_LINE
from testbed.theory import bounds
from testbed.theory.bounds import WEIGHTS, Constants
from testbed.theory.iterations import Iterations, iterations
from testbed.wire.training_job import Job

STRATEGIES = ("audg", "psurdg")
"""The strategies with the iterations of the paper: at the end of an interval, all updates that arrived are used."""
_NEEDED = trace.Header | trace.Joined | trace.Dispatched | trace.Arrived | trace.Aggregated | trace.Scored


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRun:
    """What the theory needs of a run folder."""

    folder: Path
    strategy: str
    seed: int | None
    steps: int
    """Local steps of its longest job."""
    iterations: Iterations
    score: trace.Scored | None
    """The score of the last version that was scored."""
    profile: Mapping[str, Any] | None
    """None if there is no profile.toml; η and the weights can then be given as options."""
    torn: bool
    """Whether the last line of the trace is torn, as a crash leaves it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Parameters of the strategy."""
        strategy = (self.profile or {}).get("strategy")
        return strategy if isinstance(strategy, Mapping) else {}


def read(place: Path) -> PredictedRun:
    path = trace_reading.file_of(place)
    profile = path.with_name("profile.toml")
    torn: list[int] = []
    try:
        events = [event for event in trace.read(path, torn.append) if isinstance(event, _NEEDED)]
        seen = iterations(events)
    except (trace.TraceError, OSError) as error:
        raise UserError(f"{path}: cannot be used: {error}; choose another run") from None
    if not seen.heard:
        raise UserError(f"{path}: has no version, so nothing was aggregated; run for longer")
    header = next((event for event in events if isinstance(event, trace.Header)), None)
    scores = [event for event in events if isinstance(event, trace.Scored)]
    return PredictedRun(
        folder=path.parent,
        strategy=header.strategy if header is not None else "unknown",
        seed=header.seed if header is not None else None,
        steps=max((event.steps for event in events if isinstance(event, trace.Dispatched)), default=0),
        iterations=seen,
        # the evaluator may answer out of order
        score=max(scores, key=lambda score: score.version, default=None),
        profile=profile_files.read_toml(profile) if profile.is_file() else None,
        torn=bool(torn),
    )


def predict(folders: Sequence[Path], given: Mapping[str, float], weights: str | None) -> dict[str, Any]:
    """Return the prediction for one run or two, and the measured result of two. Raises UserError.

    ``given`` are the constants. η and ``weights`` default to those of each run.
    """
    runs = [read(folder) for folder in folders]
    if len(runs) > 1 and sorted(run.strategy for run in runs) != sorted(STRATEGIES):
        ran = " and ".join(f"{run.folder} ran {run.strategy}" for run in runs)
        raise UserError(
            f"{ran}; theory compares one run of audg with one of psurdg: repeat a run with --strategy audg or"
            " --strategy psurdg, or name one run only"
        )
    figures = [_figures(run, _constants(run, given), weights or _weights(run)) for run in runs]
    by_strategy = dict(zip((run.strategy for run in runs), figures, strict=True)) if len(runs) > 1 else {}
    predicted = _predicted(by_strategy) if by_strategy else _predicted_of_one(figures[0])
    measured = _measured(by_strategy) if by_strategy else None
    winners = (predicted["winner"], measured["winner"] if measured else None)
    return {
        "runs": figures,
        "predicted": predicted,
        "measured": measured,
        "agree": None if None in winners else winners[0] == winners[1],
        "notes": list(_notes(runs, figures)),
    }


def _constants(run: PredictedRun, given: Mapping[str, float]) -> Constants:
    table = dict(given)
    if "eta" not in table:
        path = run.folder / "profile.toml"
        if run.profile is None:
            raise UserError(f"{path}: no such file, so the learning rate η is unknown; give it with --eta")
        table["eta"] = build(Job, run.profile.get("training", {}), str(path), "training").lr
    try:
        return build(Constants, table, COMMAND_LINE)
    except ProfileError as error:
        raise ProfileError(COMMAND_LINE, f"--{error.key}", error.problem) from None


def _weights(run: PredictedRun) -> str:
    """Return the weights that the strategy aggregated with, or ``samples`` if it has no such parameter."""
    own = run.settings.get("weighting")
    return own if own in WEIGHTS else "samples"


def _figures(run: PredictedRun, constants: Constants, weights: str) -> dict[str, Any]:
    """Return what one run measured, and its bounds."""
    lam = bounds.weights(run.iterations, weights)
    m = bounds.measured(run.iterations, lam)
    found = {"sfl": bounds.sfl(constants, m), "audg": bounds.audg(constants, m), "psurdg": bounds.psurdg(constants, m)}
    if not all(math.isfinite(bound.value) for bound in found.values()):
        raise UserError(f"{COMMAND_LINE}: the bounds are not finite; use constants that are nearer to 1")
    return {
        "folder": str(run.folder),
        "strategy": run.strategy,
        "seed": run.seed,
        "constants": asdict(constants),
        "weights": weights,
        "versions": m.versions,
        "devices": m.devices,
        "mean_heard": m.heard,
        "tau": [m.tau, m.tau2, m.tau3],
        "delays": [
            {
                "device": name,
                "samples": delays.samples,
                "weight": lam[name],
                "heard": delays.heard,
                "tau": [delays.moment(power) for power in (1, 2, 3)],
                "max_tau": max(delays.tau),
            }
            for name, delays in run.iterations.devices.items()
        ],
        "bounds": {name: {"value": bound.value, "terms": bound.terms} for name, bound in found.items()},
        "pdd": bounds.pdd(constants, m),
        "theta": bounds.theta(constants, m),
        "theta_as_printed": bounds.theta_as_printed(constants, m),
        "score": None if run.score is None else {"version": run.score.version, **run.score.metrics},
    }


def _predicted_of_one(figures: Mapping[str, Any]) -> dict[str, Any]:
    # the closed form of Θ: the difference of two large bounds would lose digits
    values = {strategy: figures["bounds"][strategy]["value"] for strategy in STRATEGIES}
    return {"winner": _lower({"audg": 0.0, "psurdg": figures["theta"]}), "theta": figures["theta"], **values}


def _predicted(by_strategy: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    values = {strategy: by_strategy[strategy]["bounds"][strategy]["value"] for strategy in STRATEGIES}
    # Θ is defined for the same delays under both strategies; here, each has its own
    return {"winner": _lower(values), "difference": values["psurdg"] - values["audg"], **values}


def _measured(by_strategy: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    scores = {strategy: by_strategy[strategy]["score"] for strategy in STRATEGIES}
    losses = {strategy: score.get("loss") if score else None for strategy, score in scores.items()}
    return {"winner": _lower(losses), **scores}


def _lower(values: Mapping[str, float | None]) -> str | None:
    """Return the strategy with the lower value; None if they tie or one has none."""
    audg, psurdg = (values[strategy] for strategy in STRATEGIES)
    if audg is None or psurdg is None or audg == psurdg:
        return None
    return "audg" if audg < psurdg else "psurdg"


def _notes(runs: Sequence[PredictedRun], figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield where the model of the paper and the runs differ."""
    for run in runs:
        if run.torn:
            yield f"{run.folder}: the last line of the trace is torn, as a crash leaves it; it is left out"
        if run.strategy not in STRATEGIES:
            yield (
                f"{run.strategy} has a pace of its own; the paper's iterations are intervals, at the end of which all"
                " updates that arrived are aggregated, so its model fits this run only loosely"
            )
    if any(run.steps > 1 for run in runs):
        yield (
            f"jobs have up to {max(run.steps for run in runs)} local steps, the paper's have one: let G bound the sum"
            " of a job's gradients"
        )
    if len(runs) == 1:
        if (figures[0]["theta"] < 0) != (figures[0]["theta_as_printed"] < 0):
            yield "the paper prints Θ with L instead of L − μ, which would decide otherwise; Θ here is (48) − (21)"
        return
    yield (
        "a bound limits the training loss of the mean of all models, above the best possible; what is measured is the"
        " loss of the last scored model on test data"
    )
    for name, values in {
        "seeds": [run.seed for run in runs],
        "devices": [each["devices"] for each in figures],
        "versions": [each["versions"] for each in figures],
        "learning rates": [each["constants"]["eta"] for each in figures],
        "weights": [each["weights"] for each in figures],
        "intervals": [run.settings.get("interval") for run in runs],
    }.items():
        if values[0] != values[1]:
            yield f"the runs differ in {name}: {values[0]} and {values[1]}; the bounds depend on more than the strategy"
