"""The claims of AFL's paper on AFL against Sync-FL and on the fraction C, beside our measurements."""

from __future__ import annotations

import math
from statistics import fmean

from testbed.papers.afl.afl_rounds import (
    AFL,
    EARLY,
    FALLING,
    FRACTIONS,
    SYNC,
    TARGETS,
    TASKS,
    Tracks,
    fluctuation,
    pairs_of,
    runs_of,
)
from testbed.papers.afl.afl_verdicts import NOT_RUN, by_fraction, by_limit, by_order, by_share, finite_spread
from testbed.papers.framework.chapter import ClaimRow, ClaimVerdict
from testbed.papers.framework.number_text import spread

_COMPARABLE = 1.25
"""A loss is comparable to another if it is at most this factor higher."""


def rows(tracks: Tracks) -> list[ClaimRow]:
    return [
        early(tracks, "regression", "Fig. 6"),
        comparable(tracks),
        level(tracks),
        early(tracks, "svm", "Fig. 10"),
        higher(tracks),
        cause(tracks),
        restless(tracks),
        larger(tracks, "regression", "Fig. 5"),
        larger(tracks, "svm", "Fig. 9"),
        steadier(tracks),
        sharp(tracks),
    ]


def early(tracks: Tracks, task: str, where: str) -> ClaimRow:
    pairs = pairs_of(tracks, task)
    ours = NOT_RUN
    if pairs:
        sync, afl = ([pair[side].loss[EARLY] for pair in pairs] for side in (1, 0))
        lower = sum(one < other for one, other in zip(sync, afl, strict=True))
        ours = (
            f"loss after round {EARLY}: Sync-FL {spread(sync, 2)}, AFL {spread(afl, 2)}; Sync-FL is lower in {lower} of"
            f" {len(pairs)} pairs (C and seed)"
        )
    verdict = by_share([sync.loss[EARLY] < afl.loss[EARLY] for afl, sync in pairs])
    claim = f"{TASKS[task]}: in the early rounds, Sync-FL is ahead of AFL"
    return ClaimRow(where=where, claim=claim, ours=ours, verdict=verdict)


def comparable(tracks: Tracks) -> ClaimRow:
    pairs = pairs_of(tracks, "regression")
    afl = [one.until(_COMPARABLE * sync.loss[-1]) for one, sync in pairs]
    ours = NOT_RUN
    if pairs:
        sync_rounds = [sync.until(_COMPARABLE * sync.loss[-1]) for _, sync in pairs]
        ours = (
            f"AFL is within {_COMPARABLE:g} times Sync-FL's last loss after {finite_spread(afl)} of"
            f" {pairs[0][0].rounds} rounds; Sync-FL itself after {finite_spread(sync_rounds)}"
        )
    verdict = by_share([math.isfinite(found) for found in afl], best=ClaimVerdict.DIRECTION)
    reasons = {
        ClaimVerdict.DIRECTION: (
            "Fewer rounds than the paper's: the mean of AFL's rate, γ0/√(e + 1), is 0.70·γ0 over our 4 local epochs,"
            " and 0.25·γ0 over its 50. Only the order can be compared."
        ),
        ClaimVerdict.DIFFERS: "There are too few rounds for it.",
    }
    return ClaimRow(
        where="Fig. 6",
        claim="regression: after about 200 of 400 rounds, AFL's loss is comparable to Sync-FL's",
        ours=ours,
        verdict=verdict,
        reason=reasons.get(verdict, ""),
    )


def level(tracks: Tracks) -> ClaimRow:
    """Agrees in the same order of magnitude: 0.003 to 0.03."""
    pairs = pairs_of(tracks, "regression")
    sync, afl = ([pair[side].loss[-1] for pair in pairs] for side in (1, 0))
    ours = f"last loss: Sync-FL {spread(sync, 4)}, AFL {spread(afl, 4)}" if pairs else NOT_RUN
    reason = "½·0.2² = 0.02, the noise of the data, is the lowest possible loss." if pairs else ""
    return ClaimRow(
        where="Fig. 2, 6",
        claim="regression: both converge, to a loss around 10⁻²",
        ours=ours,
        reason=reason,
        verdict=by_share([0.003 <= loss <= 0.03 for loss in (*sync, *afl)]),
    )


def higher(tracks: Tracks) -> ClaimRow:
    pairs = pairs_of(tracks, "svm")
    ours, holds = NOT_RUN, []
    if pairs:
        last = pairs[0][1].rounds
        sync, afl = ([pair[side].loss[last] for pair in pairs] for side in (1, 0))
        holds = [one > other for one, other in zip(afl, sync, strict=True)]
        at_end = [pair[0].loss[-1] for pair in pairs]
        ours = (
            f"loss after round {last}: Sync-FL {spread(sync)}, AFL {spread(afl)}; AFL after round {pairs[0][0].rounds}:"
            f" {spread(at_end)}"
        )
    verdict = by_share(holds, best=ClaimVerdict.DIRECTION)
    falling = "Both still fall when the runs end: we did not see where they would settle."
    reasons = {ClaimVerdict.DIRECTION: falling, ClaimVerdict.DIFFERS: falling}
    return ClaimRow(
        where="Fig. 10",
        claim="SVM: AFL settles at a higher loss than Sync-FL",
        ours=ours,
        verdict=verdict,
        reason=reasons.get(verdict, ""),
    )


def cause(tracks: Tracks) -> ClaimRow:
    """The part of Sync-FL's advantage that remains when its local rate falls as AFL's does: half agrees, a tenth in
    direction."""
    kept, said = [], []
    for task, target in TARGETS.items():
        groups = [runs_of(tracks, task, strategy, 0.5) for strategy in (AFL, SYNC, FALLING)]
        if not all(groups):
            continue
        afl, sync, falling = ([run.until(target) for run in runs] for runs in groups)
        slow, fast, middle = (fmean(min(run.until(target), run.rounds) for run in runs) for runs in groups)
        kept.append((slow - middle) / (slow - fast) if slow > fast else 0.0)
        said.append(
            f"{TASKS[task]}, C = 0.5, rounds to a loss of {target:g}: Sync-FL {finite_spread(sync)}, with AFL's rate"
            f" {finite_spread(falling)}, AFL {finite_spread(afl)}"
        )
    verdict = by_limit(min(kept) if len(kept) == len(TARGETS) else None, 0.5, 0.1)
    rate = "Sync-FL keeps a constant rate (the paper names none; the authors' program does so), AFL's falls: "
    reasons = {
        ClaimVerdict.AGREES: rate + "that is the smaller part of the advantage.",
        ClaimVerdict.DIRECTION: rate + "that is the larger part of the advantage.",
        ClaimVerdict.DIFFERS: rate + "that is all of the advantage.",
    }
    return ClaimRow(
        where="Fig. 6, 10",
        claim="Sync-FL's advantage comes from devices that contribute at the same time",
        ours="; ".join(said) or NOT_RUN,
        verdict=verdict,
        reason=reasons.get(verdict, ""),
    )


def restless(tracks: Tracks) -> ClaimRow:
    pairs = [pair for task in TASKS for pair in pairs_of(tracks, task)]
    sync, afl = ([fluctuation(pair[side]) for pair in pairs] for side in (1, 0))
    verdict = by_share([one > other for one, other in zip(afl, sync, strict=True)])
    reasons = {
        ClaimVerdict.DIFFERS: (
            "The strategy: by the paper's text a model is the mean of the last model of every device, and one arrival"
            " moves it by a tenth; Sync-FL's is the mean of C·N new ones. The authors' program has (x + x_c)/2"
            " instead, in which half the weight is on the last device."
        ),
    }
    ours = f"fluctuation of the loss in the later half: AFL {spread(afl)}, Sync-FL {spread(sync)}" if pairs else NOT_RUN
    return ClaimRow(
        where="Fig. 6, 10",
        claim="AFL's loss varies more from round to round than Sync-FL's",
        ours=ours,
        verdict=verdict,
        reason=reasons.get(verdict, ""),
    )


# ---- the fraction C


def larger(tracks: Tracks, task: str, where: str) -> ClaimRow:
    groups = [[run.until(TARGETS[task]) for run in runs_of(tracks, task, AFL, c)] for c in FRACTIONS]
    verdict = by_order(groups)
    crowded = (
        "With 9 of 10 in flight, there is hardly a choice of the next device: a device with few samples returns at"
        " once, and contributes several times in a round, which the paper's rounds do not have; and updates are"
        " staler."
    )
    reasons = {ClaimVerdict.DIRECTION: crowded, ClaimVerdict.DIFFERS: crowded}
    return ClaimRow(
        where=where,
        claim=f"{TASKS[task]}: the larger C, the fewer rounds AFL takes",
        ours=f"rounds to a loss of {TARGETS[task]:g}: {by_fraction(groups)}",
        verdict=verdict,
        reason=reasons.get(verdict, ""),
    )


def steadier(tracks: Tracks) -> ClaimRow:
    groups = [[fluctuation(run) for task in TASKS for run in runs_of(tracks, task, AFL, c)] for c in FRACTIONS]
    return ClaimRow(
        where="Fig. 5, 9",
        claim="the smaller C, the more AFL's loss varies",
        ours=f"fluctuation of the loss in the later half: {by_fraction(groups, 4)}",
        verdict=by_order(groups),
    )


def sharp(tracks: Tracks) -> ClaimRow:
    """By the share of the total fall in the first quarter of the rounds: 0.8 agrees, 0.5 in direction."""
    runs = runs_of(tracks, "svm", AFL, 0.5)
    shares = [(run.loss[0] - run.loss[run.rounds // 4]) / (run.loss[0] - run.loss[-1]) for run in runs]
    verdict = by_limit(min(shares, default=None), 0.8, 0.5)
    ours = f"{spread(shares, 2)} of the fall in the first quarter of {runs[0].rounds} rounds" if runs else NOT_RUN
    return ClaimRow(
        where="Fig. 8",
        ours=ours,
        verdict=verdict,
        claim="SVM, C = 0.5: the loss falls sharply at first, and settles after 200 to 300 of 1000 rounds",
    )
