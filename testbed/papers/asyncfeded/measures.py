"""The quantities of AsyncFedED's figures, computed from finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from testbed.papers.asyncfeded import verdicts
from testbed.papers.asyncfeded.runs import (
    CONTENDERS,
    FIXED,
    OUR_PARAMETERS,
    OURS,
    SEEDS,
    SUSPENSIONS,
    USUAL,
    capped_name,
    fixed_name,
    name_of,
)
from testbed.papers.framework.result import Result, Results

SHARE = 0.9
"""Share of the best accuracy that is the target, as in Fig. 3 for each strategy's own best."""
ADAPTIVE = "adaptive"


def of_names(results: Results, names: Sequence[str]) -> list[Result]:
    """The results of all these runs; empty if one is missing."""
    found = [results[name] for name in names if name in results]
    return found if len(found) == len(names) else []


def runs_of(results: Results, task: str, strategy: str, suspension: float = USUAL) -> list[Result]:
    return of_names(results, [name_of(task, strategy, seed, suspension) for seed in SEEDS])


def contest_of(results: Results, task: str, suspension: float = USUAL) -> dict[str, list[Result]]:
    found = {strategy: runs_of(results, task, strategy, suspension) for strategy in CONTENDERS}
    return found if all(found.values()) else {}


def level(result: Result) -> float:
    return verdicts.level(result.curve(), result.summary.seconds)


def falls(result: Result) -> float:
    return verdicts.falls(result.curve(), result.summary.seconds)


def own_time(result: Result) -> float:
    """Seconds to ``SHARE`` of the run's own best accuracy."""
    return result.reached(SHARE * result.best()) or 0.0


def target_times(contest: dict[str, list[Result]]) -> dict[str, list[float | None]]:
    """Seconds to 90 % of the best accuracy of all five with that seed, by strategy and seed."""
    times: dict[str, list[float | None]] = {strategy: [] for strategy in contest}
    for place in range(len(SEEDS)):
        target = SHARE * max(found[place].best() for found in contest.values())
        for strategy, found in contest.items():
            times[strategy].append(found[place].reached(target))
    return times


def sweep(results: Results) -> dict[float, dict[str, list[Result]]]:
    """P → strategy → runs, for each P whose runs are all finished."""
    return {p: found for p in SUSPENSIONS if (found := contest_of(results, "synthetic", p))}


def mean_best(found: Sequence[Result]) -> float:
    return fmean(result.best() for result in found)


def loss(results: Results, strategy: str) -> float | None:
    """Best accuracy lost from the smallest P to the largest."""
    without, most = (runs_of(results, "synthetic", strategy, p) for p in (SUSPENSIONS[0], SUSPENSIONS[-1]))
    return mean_best(without) - mean_best(most) if without and most else None


def schemes(results: Results) -> dict[str, list[Result]]:
    found = {ADAPTIVE: runs_of(results, "synthetic", OURS)}
    found |= {f"K = {steps}": of_names(results, [fixed_name(steps, seed) for seed in SEEDS]) for steps in FIXED}
    return found if all(found.values()) else {}


def capped(results: Results) -> list[Result]:
    """The runs with adaptive K, limited to its initial value."""
    return of_names(results, [capped_name(seed) for seed in SEEDS])


def gammas(result: Result) -> list[float]:
    """γ of each update in the second half of a run, computed from its weight η_g = λ/(γ + ε)."""
    strategy = OUR_PARAMETERS["synthetic"]
    weights = [row.weight for row in result.run.versions.rows]
    return [strategy["lam"] / weight - strategy["eps"] for weight in weights[len(weights) // 2 :]]
