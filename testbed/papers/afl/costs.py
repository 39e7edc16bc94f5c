"""The claims of AFL's paper on delays, wall-clock time and energy, beside our measurements."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, median

from testbed.papers.afl.afl_rounds import AFL, FRACTIONS, TASKS, Track, Tracks, drift, pairs_of, runs_of, straightness
from testbed.papers.afl.afl_verdicts import NOT_RUN, by_limit, by_share
from testbed.papers.framework.chapter import ClaimRow, ClaimVerdict
from testbed.papers.framework.number_text import spread

_ALPHA = 0.01
"""α of the strategy in the experiments."""


def rows(tracks: Tracks) -> list[ClaimRow]:
    return [
        bounded(tracks),
        wall_clock(tracks),
        energy(tracks),
        no_waiting(tracks),
        cheaper(tracks, "seconds", lambda track: track.to_target_s),
        cheaper(tracks, "joules", lambda track: track.to_target_j),
        sensitive(tracks),
    ]


def bounded(tracks: Tracks) -> ClaimRow:
    """It does not grow: the later half of the rounds has at most 1.5 times the spread of the earlier one."""
    runs = [run for task in TASKS for run in runs_of(tracks, task, AFL, 0.5)]
    found = [drift(run) for run in runs]
    ours = NOT_RUN
    if runs:
        mean, largest = [fmean(run.spread) for run in runs], max(max(run.spread) for run in runs)
        ours = (
            f"mean {spread(mean, 2)} s, at most {largest:.2f} s; the later half has {spread(found, 2)} times that of"
            " the earlier one"
        )
    return ClaimRow(
        where="Fig. 1, 7",
        claim="C = 0.5: the spread of delays of a round, max − min, stays within a bound",
        ours=ours,
        verdict=by_share([value <= 1.5 for value in found]),
    )


def wall_clock(tracks: Tracks) -> ClaimRow:
    """R² of a line: 0.98 is nearly linear, 0.9 in direction."""
    runs = runs_of(tracks, "regression", AFL, 0.5)
    found = [straightness(run.waited) for run in runs]
    ours = NOT_RUN
    if runs:
        ours = (
            f"R² of a line {spread(found)}; at the end {spread([run.waited[-1] for run in runs], 1)} s, while"
            f" {spread([run.seconds[-1] for run in runs], 1)} s passed"
        )
    reason = (
        "By its definition it is not a clock: it omits the time in which all devices compute, and counts overlaps"
        " twice. The paper's figures were drawn by a program that sums max instead."
        if runs
        else ""
    )
    return ClaimRow(
        where="Fig. 3",
        claim="regression: the cumulative wall-clock time, Σ(max − min), grows nearly linearly",
        ours=ours,
        verdict=by_limit(min(found, default=None), 0.98, 0.9),
        reason=reason,
    )


def energy(tracks: Tracks) -> ClaimRow:
    """R² of a line: 0.98 is nearly linear, 0.9 in direction."""
    runs = runs_of(tracks, "regression", AFL, 0.5)
    found = [straightness(run.proxy) for run in runs]
    ours = NOT_RUN
    if runs:
        watts = [run.proxy[-1] / run.waited[-1] for run in runs]
        ours = f"R² of a line {spread(found)}; per second of Σ(max − min) {spread(watts, 1)} J"
    return ClaimRow(
        where="Fig. 4",
        ours=ours,
        claim="regression: the energy proxy, Σ P·τ, grows almost linearly, in proportion to the wall-clock time",
        verdict=by_limit(min(found, default=None), 0.98, 0.9),
    )


def no_waiting(tracks: Tracks) -> ClaimRow:
    pairs = [pair for task in TASKS for pair in pairs_of(tracks, task)]
    ratios = [afl.seconds_per_round / sync.seconds_per_round for afl, sync in pairs]
    ours = f"a round of AFL takes {spread(ratios, 2)} times as long as one of Sync-FL" if pairs else NOT_RUN
    return ClaimRow(
        where="Section I-A",
        claim="in AFL, slow devices do not delay fast ones",
        ours=ours,
        verdict=by_share([ratio < 1 for ratio in ratios]),
    )


def cheaper(tracks: Tracks, unit: str, cost: Callable[[Track], float]) -> ClaimRow:
    said, holds = [], []
    for c in FRACTIONS:
        pairs = [(cost(afl), cost(sync)) for task in TASKS for afl, sync in pairs_of(tracks, task, c)]
        pairs = [
            pair for pair in pairs if math.isfinite(min(pair))
        ]  # pairs in which neither reached the target have no winner
        holds += [one < other for one, other in pairs]
        if pairs:
            ratio = median(one / other for one, other in pairs)
            said.append(f"C = {c:g}: {ratio:.2f}")
    claims = {
        "seconds": "converges in less time than the synchronous scheme",
        "joules": "makes better use of resources",
    }
    by_c = (
        "It depends on C. AFL takes several times as many rounds (see above); they are shorter, especially for large"
        " C, because Sync-FL then nearly always waits for the largest share of the data. The paper has no figure of"
        " it."
    )
    verdict = by_share(holds)
    reasons = {ClaimVerdict.DIRECTION: by_c, ClaimVerdict.DIFFERS: by_c}
    ratios = f"{unit} to the target loss, AFL ÷ Sync-FL, median: {', '.join(said)}"
    ours = f"{ratios}; fewer in {sum(holds)} of {len(holds)} pairs"
    return ClaimRow(
        where="Section VII",
        claim=f"AFL {claims[unit]}",
        ours=ours if holds else NOT_RUN,
        verdict=verdict,
        reason=reasons.get(verdict, ""),
    )


def sensitive(tracks: Tracks) -> ClaimRow:
    runs = [run for task in TASKS for c in FRACTIONS for run in runs_of(tracks, task, AFL, c)]
    lowered = [1 - 1 / (1 + _ALPHA * fmean(run.spread)) for run in runs]
    ours = f"α·τ_t lowers the rate by {spread([100 * share for share in lowered], 1)} %" if runs else NOT_RUN
    return ClaimRow(
        where="Section VI",
        claim="the SVM is more sensitive to large τ_t than the regression is",
        ours=ours,
        verdict=ClaimVerdict.UNTESTED if runs else ClaimVerdict.MISSING,
        reason="With the paper's α, such delays hardly change the rate; and the paper has no figure to compare with."
        if runs
        else "",
    )
