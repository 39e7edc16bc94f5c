"""Which of AUDG and PSURDG has the lower bound, and which reached the lower loss.

For one run, both bounds are computed from the delays that it measured. For two runs, one of each strategy, each bound
is computed from the delays of its own run; the measured winner has the lower loss in its last score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from testbed.common.errors import ProfileError, UserError
from testbed.common.parameters import build
from testbed.loading.profile_loader import COMMAND_LINE
from testbed.theory import bounds, predicted_run
from testbed.theory.bound_constants import WEIGHTS, Constants
from testbed.theory.iterations import Delays
from testbed.theory.predicted_run import PredictedRun
from testbed.theory.prediction_result import (
    DeviceDelays,
    MeasuredWinner,
    PredictedByDifference,
    PredictedByTheta,
    Prediction,
    RunBounds,
)
from testbed.wire.training_job import Job

STRATEGIES = ("audg", "psurdg")
"""The strategies with the iterations of the paper: at the end of an interval, all updates that arrived are used."""


def predict(folders: Sequence[Path], given: Mapping[str, float], weights: str | None) -> Prediction:
    """Return the prediction for one run or two, and the measured result of two. Raises UserError.

    ``given`` are the constants. η and ``weights`` default to those of each run.
    """
    runs = [predicted_run.read(folder) for folder in folders]
    if len(runs) > 1 and sorted(run.strategy for run in runs) != sorted(STRATEGIES):
        ran = " and ".join(f"{run.folder} ran {run.strategy}" for run in runs)
        raise UserError(
            f"{ran}; theory compares one run of audg with one of psurdg: repeat a run with --strategy audg or"
            " --strategy psurdg, or name one run only"
        )
    found = [_bounds(run, _constants(run, given), weights or _weights(run)) for run in runs]
    notes = list(_notes(runs, found))
    if len(found) == 1:
        return Prediction(runs=found, predicted=_predicted_of_one(found[0]), measured=None, agree=None, notes=notes)
    by_strategy = {each.strategy: each for each in found}
    predicted, measured = _predicted(by_strategy), _measured(by_strategy)
    undecided = predicted.winner is None or measured.winner is None
    agree = None if undecided else predicted.winner == measured.winner
    return Prediction(runs=found, predicted=predicted, measured=measured, agree=agree, notes=notes)


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


def _bounds(run: PredictedRun, constants: Constants, weights: str) -> RunBounds:
    """Return what one run measured, and its bounds. Raises UserError if a bound is not finite."""
    lam = bounds.weights(run.iterations, weights)
    m = bounds.measured(run.iterations, lam)
    found = {"sfl": bounds.sfl(constants, m), "audg": bounds.audg(constants, m), "psurdg": bounds.psurdg(constants, m)}
    if not all(math.isfinite(bound.value) for bound in found.values()):
        raise UserError(f"{COMMAND_LINE}: the bounds are not finite; use constants that are nearer to 1")
    return RunBounds(
        folder=str(run.folder),
        strategy=run.strategy,
        seed=run.seed,
        constants=constants,
        weights=weights,
        versions=m.versions,
        devices=m.devices,
        mean_heard=m.heard,
        tau=(m.tau, m.tau2, m.tau3),
        delays=[_delays(name, each, lam[name]) for name, each in run.iterations.devices.items()],
        bounds=found,
        pdd=bounds.pdd(constants, m),
        theta=bounds.theta(constants, m),
        theta_as_printed=bounds.theta_as_printed(constants, m),
        score=None if run.score is None else {"version": run.score.version, **run.score.metrics},
    )


def _delays(device: str, delays: Delays, weight: float) -> DeviceDelays:
    return DeviceDelays(
        device=device,
        samples=delays.samples,
        weight=weight,
        heard=delays.heard,
        tau=(delays.moment(1), delays.moment(2), delays.moment(3)),
        max_tau=max(delays.tau),
    )


def _predicted_of_one(run: RunBounds) -> PredictedByTheta:
    return PredictedByTheta(
        # the closed form of Θ: the difference of two large bounds would lose digits
        winner=_lower(0.0, run.theta),
        theta=run.theta,
        audg=run.bounds["audg"].value,
        psurdg=run.bounds["psurdg"].value,
    )


def _predicted(by_strategy: Mapping[str, RunBounds]) -> PredictedByDifference:
    audg, psurdg = (by_strategy[strategy].bounds[strategy].value for strategy in STRATEGIES)
    # Θ is defined for the same delays under both strategies; here, each has its own
    return PredictedByDifference(winner=_lower(audg, psurdg), difference=psurdg - audg, audg=audg, psurdg=psurdg)


def _measured(by_strategy: Mapping[str, RunBounds]) -> MeasuredWinner:
    audg, psurdg = (by_strategy[strategy].score for strategy in STRATEGIES)
    losses = (score.get("loss") if score else None for score in (audg, psurdg))
    return MeasuredWinner(winner=_lower(*losses), audg=audg, psurdg=psurdg)


def _lower(audg: float | None, psurdg: float | None) -> str | None:
    """Return the strategy with the lower value; None if they tie or one has none."""
    if audg is None or psurdg is None or audg == psurdg:
        return None
    return "audg" if audg < psurdg else "psurdg"


def _notes(runs: Sequence[PredictedRun], found: Sequence[RunBounds]) -> Iterator[str]:
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
        if (found[0].theta < 0) != (found[0].theta_as_printed < 0):
            yield "the paper prints Θ with L instead of L − μ, which would decide otherwise; Θ here is (48) − (21)"
        return
    yield (
        "a bound limits the training loss of the mean of all models, above the best possible; what is measured is the"
        " loss of the last scored model on test data"
    )
    compared: dict[str, Sequence[object]] = {
        "seeds": [run.seed for run in runs],
        "devices": [each.devices for each in found],
        "versions": [each.versions for each in found],
        "learning rates": [each.constants.eta for each in found],
        "weights": [each.weights for each in found],
        "intervals": [run.settings.get("interval") for run in runs],
    }
    for name, values in compared.items():
        if values[0] != values[1]:
            yield f"the runs differ in {name}: {values[0]} and {values[1]}; the bounds depend on more than the strategy"
