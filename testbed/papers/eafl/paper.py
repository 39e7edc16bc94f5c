"""EAFL: clusters with heads against TWAFL, GSGM and WKAFL on data of few labels. Zhou et al. 2024."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from testbed.papers.eafl.reasons import REASONS
from testbed.papers.eafl.runs import (
    ABLATIONS,
    CLUSTERS,
    DEVICES,
    FEW,
    LABELS,
    MANY,
    RULES,
    EaflResults,
    R,
    Scores,
    T,
    iterations,
    jobs,
    place,
    searches,
)
from testbed.papers.framework import paper_figures
from testbed.papers.framework.chapter import Chapter, ChapterTable, ClaimRow, ClaimVerdict, PaperFigure
from testbed.papers.framework.number_text import signed, spread
from testbed.papers.framework.paper import Chosen, Paper
from testbed.papers.framework.result import Results

_LEAST = 0.01
"""A smaller difference is none."""
_RIVALS = tuple(strategy for strategy in RULES if strategy != "eafl")
_PRINTED: Mapping[str, tuple[str, Mapping[str, float]]] = {
    place(1, MANY): ("II, III", {"eafl": 93.33, "twafl": 81.95, "gsgm": 86.45, "wkafl": 75.13}),
    place(1): ("III", {"eafl": 92.78, "twafl": 55.07, "gsgm": 83.11, "wkafl": 71.23}),
    place(5): ("II", {"eafl": 94.58, "twafl": 91.67, "gsgm": 91.23, "wkafl": 92.88}),
    place(10): ("II", {"eafl": 94.68, "twafl": 95.66, "gsgm": 94.61, "wkafl": 93.54}),
}
"""Table and what it has, in percent, for MNIST. Table II is of φ = 0.10: ten updates of 100 devices."""
_WHOLE, _WITHOUT = 93.33, {"gdc": 86.69, "saa": 67.02, "dsa": 71.67}
"""Table I."""


def is_above(first: Scores, second: Scores) -> bool:
    """By ``_LEAST`` in the mean over the seeds that both have, and with most of them."""
    differences = [first[seed] - second[seed] for seed in first.keys() & second.keys()]
    most = sum(difference > 0 for difference in differences) * 2 > len(differences)
    return most and fmean(differences) >= _LEAST


def all_hold(claims: Sequence[tuple[Scores, Scores]]) -> ClaimVerdict:
    """Whether in each pair the first is above the second. At another scale, the order is all that can agree."""
    if not claims or any(not first.keys() & second.keys() for first, second in claims):
        return ClaimVerdict.MISSING
    return ClaimVerdict.DIRECTION if all(is_above(*claim) for claim in claims) else ClaimVerdict.DIFFERS


def difference(first: Scores, second: Scores) -> Scores:
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def _row(where: str, claim: str, ours: str, verdict: ClaimVerdict, key: str) -> ClaimRow:
    return ClaimRow(
        where=where,
        claim=claim,
        ours="–" if verdict is ClaimVerdict.MISSING else ours,
        verdict=verdict,
        reason=REASONS.get((key, verdict), ""),
    )


def _each(scores: Mapping[str, Scores]) -> str:
    return ", ".join(f"{RULES[strategy]} {spread(list(values.values()))}" for strategy, values in scores.items())


def _ahead(found: EaflResults, where: str, table: str, claim: str, key: str) -> ClaimRow:
    """EAFL is ahead of every rival."""
    scores = {strategy: found.after_t(where, strategy) for strategy in RULES}
    return _row(
        table, claim, _each(scores), all_hold([(scores["eafl"], scores[strategy]) for strategy in _RIVALS]), key
    )


def _contest(found: EaflResults, where: str, table: str, claim: str, ranked: Sequence[str], key: str) -> list[ClaimRow]:
    """EAFL is ahead, and its rivals are in this order."""
    scores = {strategy: found.after_t(where, strategy) for strategy in ranked}
    order = f"of the others, {RULES[ranked[0]]} is first and {RULES[ranked[-1]]} last"
    holds = all_hold(list(pairwise(scores[strategy] for strategy in ranked)))
    return [_ahead(found, where, table, claim, key), _row(table, order, _each(scores), holds, f"{key} order")]


def _labels_rows(found: EaflResults) -> list[ClaimRow]:
    """Table II, and Fig. 7 in iterations and in time."""
    one, ten = ({strategy: found.after_t(place(labels), strategy) for strategy in RULES} for labels in (1, 10))
    losses = {strategy: difference(ten[strategy], one[strategy]) for strategy in RULES}
    timed = {strategy: found.in_time(strategy) for strategy in RULES}
    return [
        *_contest(
            found,
            place(1, MANY),
            f"Table II and Fig. 7 (a), L_num = 1; K = {MANY}",
            "EAFL 93.33 %, TWAFL 81.95 %, GSGM 86.45 %, WKAFL 75.13 %: EAFL first, by 7 points or more",
            ("gsgm", "twafl", "wkafl"),
            "one",
        ),
        _ahead(
            found,
            place(5),
            f"Table II, L_num = 5; K = {FEW}",
            "EAFL 94.58 %, TWAFL 91.67 %, GSGM 91.23 %, WKAFL 92.88 %",
            "five",
        ),
        _row(
            f"Table II, L_num = 10; K = {FEW}",
            "TWAFL 95.66 % before EAFL 94.68 %; GSGM 94.61 %, WKAFL 93.54 %",
            _each(ten),
            all_hold([(ten["twafl"], ten["eafl"])]),
            "ten",
        ),
        _row(
            f"Table II, from L_num = 10 to 1; K = {FEW}",
            "EAFL loses 1.35 points, TWAFL 13.71, GSGM 8.16, WKAFL 18.41: it suffers least",
            ", ".join(
                f"{RULES[strategy]} {signed([-loss for loss in losses[strategy].values()])}" for strategy in RULES
            ),
            all_hold([(losses[strategy], losses["eafl"]) for strategy in _RIVALS]),
            "losses",
        ),
        _row(
            f"Fig. 7 (a), in seconds; K = {FEW}",
            "EAFL is called the more efficient; its figures count iterations, and none has a time axis",
            f"after the same emulated seconds: {_each(timed)}",
            all_hold([(timed["eafl"], timed[strategy]) for strategy in _RIVALS]),
            "time",
        ),
    ]


def _part_rows(found: EaflResults) -> list[ClaimRow]:
    """Table I."""
    whole = found.after_t(place(1))
    rows = []
    for part in ABLATIONS:
        left = found.after_t(place(1, without=part))
        claim = f"{_WHOLE:.2f} % with it, {_WITHOUT[part]:.2f} % without: {signed([_WITHOUT[part] - _WHOLE], 1)} points"
        ours = (
            f"{spread(list(whole.values()))} with, {spread(list(left.values()))} without:"
            f" {signed(list(difference(left, whole).values()))}"
        )
        rows.append(_row(f"Table I, without {part.upper()}; K = {FEW}", claim, ours, all_hold([(whole, left)]), part))
    return rows


def _share_rows(found: EaflResults) -> list[ClaimRow]:
    """Table III."""
    gains = {
        strategy: difference(found.after_t(place(1, MANY), strategy), found.after_t(place(1, FEW), strategy))
        for strategy in RULES
    }
    said = ", ".join(f"{RULES[strategy]} {signed(list(gains[strategy].values()))}" for strategy in RULES)
    nothing = {strategy: dict.fromkeys(gains[strategy], 0.0) for strategy in RULES}
    return [
        *_contest(
            found,
            place(1, FEW),
            f"Table III, φ = 0.05; K = {FEW}",
            "EAFL 92.78 %, TWAFL 55.07 %, GSGM 83.11 %, WKAFL 71.23 %: EAFL first",
            ("gsgm", "wkafl", "twafl"),
            "few",
        ),
        _row(
            "Table III, from 5 to 10 updates an iteration",
            "with φ from 0.05 to 0.10, TWAFL gains 26.9 points, GSGM 3.3, WKAFL 3.9",
            said,
            all_hold([(gains[strategy], nothing[strategy]) for strategy in _RIVALS]),
            "gains",
        ),
        _row(
            "Table III, the same",
            "EAFL gains 0.6 points, the least of all: φ hardly matters to it",
            said,
            all_hold([(gains[strategy], gains["eafl"]) for strategy in _RIVALS]),
            "steady",
        ),
    ]


def _untested() -> list[ClaimRow]:
    told = {
        "Table III, φ = 0.20": ("EAFL 93.58 %, TWAFL 92.14 %, GSGM 93.30 %, WKAFL 88.48 %", "widest"),
        "Figs. 4 and 5": ("more than N = 5 clusters, or clustering more often than R = 100, changes little", "figures"),
        "Fig. 6": ("EAFL first with ε = 0.04 of the samples at random, the rest sorted (T1)", "t1"),
        "CIFAR-10": ("EAFL first in all of Tables II and III, Figs. 6 (b) and 7 (b)", "cifar"),
    }
    return [
        ClaimRow(
            where=where,
            claim=claim,
            ours="–",
            verdict=ClaimVerdict.UNTESTED,
            reason=REASONS[key, ClaimVerdict.UNTESTED],
        )
        for where, (claim, key) in told.items()
    ]


def _grid(found: EaflResults) -> ChapterTable:
    lines: list[tuple[str, ...]] = []
    cells = [(1, MANY), (1, FEW), *((labels, FEW) for labels in LABELS[1:])]
    for labels, k in cells:
        table, printed = _PRINTED[place(labels, k)]
        lines += [
            (
                table,
                str(labels),
                str(k),
                title,
                f"{printed[strategy]:.2f} %",
                *_figures(found, place(labels, k), strategy),
            )
            for strategy, title in RULES.items()
        ]
    lines += [
        (
            "I",
            "1",
            str(FEW),
            f"EAFL without {part.upper()}",
            f"{_WITHOUT[part]:.2f} %",
            *_figures(found, place(1, without=part), "eafl"),
        )
        for part in ABLATIONS
    ]
    return ChapterTable(
        title=f"Tables I to III: accuracy after {T} iterations, and the emulated seconds that they took",
        header=("table", "L_num", "K", "rule", "paper", "accuracy", "seconds"),
        lines=lines,
    )


def _figures(found: EaflResults, where: str, strategy: str) -> tuple[str, str]:
    return spread(list(found.after_t(where, strategy).values())), spread(found.seconds(where, strategy), 1)


def _picture(found: EaflResults) -> PaperFigure:
    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for number, (strategy, title) in enumerate(RULES.items()):
            results = list(found.runs(place(1), strategy).values())
            grid = np.linspace(0, T, T + 1)
            lines = [np.interp(grid, *iterations(result)) for result in results]
            if lines:
                colour = paper_figures.COLOURS[number]
                left.plot(
                    grid, np.mean(lines, axis=0), color=colour, linestyle=paper_figures.STYLES[number], label=title
                )
                left.fill_between(grid, np.min(lines, axis=0), np.max(lines, axis=0), color=colour, alpha=0.15, lw=0)
            paper_figures.curves(right, number, title, results)
        left.set(xlabel="iterations", ylabel="accuracy")
        right.set(xlabel="emulated seconds")
        right.legend()

    caption = f"One label for each device (T2, L_num = 1), K = {FEW}: by iterations, as in Fig. 7 (a), and by time"
    return PaperFigure(name="curves", caption=caption, draw=draw)


def chapter(results: Results, chosen: Chosen) -> Chapter:
    found = EaflResults(results)
    return Chapter(
        setting=_SETTING,
        rows=[*_part_rows(found), *_labels_rows(found), *_share_rows(found), *_untested()],
        grids=[_grid(found)],
        pictures=[_picture(found)] if results else [],
    )


_SETTING = f"""\
As in the paper: the rules, N = {CLUSTERS} clusters, the split (T2), and accuracies after T iterations, not after some
time. Smaller: {DEVICES} devices of five speeds (1 to 3) instead of 100, 8×8 digits and a perceptron of 2,410
parameters instead of MNIST and a CNN, T = {T} iterations instead of 1600, a clustering every {R} of them, two steps
of 8 samples for a job. An iteration has K = {FEW} updates, one for each cluster, which is φ = 0.05 among 100 devices
and 1/8 here; K = {MANY} stands for φ = 0.10. Tables I and II are of φ = 0.10 in the paper: of them, L_num = 1 was run
with K = {MANY}, and the parts of EAFL and L_num = 5 and 10, to save time, with K = {FEW}. EAFL rounds φ up in each
cluster, and so takes 7 updates or so where K is 5. The paper does not say what φ is to GSGM: here K versions count as
an iteration, and K gradients are averaged.
Without DSA, the answers of {CLUSTERS} heads count as one.

Speeds, local training, α and the other rules' parameters are not printed. α is 0.6, the parameters are the defaults,
and the rate was searched for, where devices have one label, among the same values for each rule; the parts of Table
I have EAFL's. With one label for each device, a version scores many points above or below the next: accuracies are
means over the last fifth of the iterations. Rules met the same delays by having the same seeds; nothing was replayed,
because heads draw their own delays in a replay.

Chosen after looking at outcomes: a first programme of 15 devices and 60 iterations was measured (seeds 1 to 3) and
dropped, because its updates were hardly more than one version old and no rule came near to where it would settle. In
it, 4 rows agreed in direction and 8 did not; among those that did not were GDC, SAA and the order of the rivals. Of
the present fleet, runs of EAFL, TWAFL and GSGM at the rate 0.3 (seed 101) were looked at before T and R were fixed.
Table II's L_num = 1 stood beside K = {FEW} until two seeds had been seen, and then beside K = {MANY}, which is its φ:
with K = {FEW}, EAFL is first and the order of the others is not Table II's; with K = {MANY} it is the other way
round."""

PAPER = Paper(
    name="eafl",
    title="EAFL: clusters with heads",
    citation=(
        "Zhou, Pang, Wang, Hu, Sun, Ren: Towards Efficient Asynchronous Federated Learning in Heterogeneous Edge"
        " Environments. 2024, section VI."
    ),
    searches=searches(),
    jobs=jobs,
    chapter=chapter,
)
