"""From runs to plain values: groups with means and intervals, paired differences, and what a reader must know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from testbed.analysis import energy
from testbed.compare import interval, pairing, settings, sign_flip
from testbed.compare.compared_runs import ComparedRun
from testbed.compare.goal import Goal
from testbed.compare.pairing import Fate, PairedDifference
from testbed.compare.quantities import of_run, quantities

_USUAL_P = 0.05


def compare(runs: Sequence[ComparedRun], goal: Goal) -> dict[str, Any]:
    """Everything there is to say about these runs."""
    groups, apart = settings.labels(runs)
    values, fates = [of_run(run, goal) for run in runs], pairing.fates(runs)
    found = list(pairing.differences(groups, fates, values))
    return {
        "metric": goal.metric,
        "lower": goal.lower,
        "target": goal.target,
        "target_is": goal.because,
        "quantities": [asdict(quantity) for quantity in quantities(goal)],
        "groups": [_group(label, runs, groups, values) for label in dict.fromkeys(groups)],
        "paired": pairing.as_rows(found),
        "paired_by": [pairing.BASIS[by] for by in pairing.BASIS if any(row.by == by for row in found)],
        "runs": [
            {"run": str(run.place), "group": group, "seed": run.header.seed, "fidelity": run.fidelity, **table}
            for run, group, table in zip(runs, groups, values, strict=True)
        ],
        "notes": [
            *(note for run in runs for note in run.notes),
            *apart,
            *_about_runs(runs, groups, fates),
            *_about_values(runs, values, goal),
            *_about_pairs(groups, found),
        ],
    }


def _group(
    label: str, runs: Sequence[ComparedRun], groups: Sequence[str], values: Sequence[Mapping[str, float | None]]
) -> dict[str, Any]:
    own = [place for place, group in enumerate(groups) if group == label]
    means: dict[str, Any] = {}
    for key in values[0]:
        mean = interval.mean([value for place in own if (value := values[place][key]) is not None])
        means[key] = None if mean is None else mean.as_table()
    return {
        "label": label,
        "strategy": runs[own[0]].header.strategy,
        "runs": len(own),
        "seeds": sorted(runs[place].header.seed for place in own),
        "reached": sum(values[place]["seconds_to_target"] is not None for place in own),
        "values": means,
    }


# ---- what a reader must know


def _about_runs(runs: Sequence[ComparedRun], groups: Sequence[str], fates: Sequence[Fate]) -> Iterator[str]:
    bare = [str(run.place) for run in runs if run.profile is None]
    if bare:
        yield f"no profile.toml, so that only the rule's parameters are known: {', '.join(bare)}"
    failed = sum(run.fidelity == "FAIL" for run in runs)
    if failed:
        yield (
            f"the certificate of {failed} of {len(runs)} runs says FAIL (runs.csv tells which): the host did not keep"
            " up, and their seconds are not to be relied on"
        )
    for (group, fate), count in Counter(zip(groups, fates, strict=True)).items():
        if count > 1:
            seed = next(run.header.seed for run, each in zip(runs, fates, strict=True) if each == fate)
            yield f"{group}: {count} runs have seed {seed}; they are not independent, and the interval is too narrow"


def _about_values(
    runs: Sequence[ComparedRun], values: Sequence[Mapping[str, float | None]], goal: Goal
) -> Iterator[str]:
    if all(table["energy_j"] is None for table in values):
        yield "no joules: no run has a power model for every device (power in the device's profile)"
    else:
        yield f"joules are not measured; their model: {energy.MODEL}"
    untrained = sum(goal.reached_untrained(run) for run in runs)
    if untrained:
        yield (
            f"the initial model of {untrained} of {len(runs)} runs has {goal.metric} {goal.target:g} already: that they"
            " reached it says nothing; name another with --target"
        )
    reached = sum(table["seconds_to_target"] is not None for table in values)
    if reached < len(values):
        yield (
            f"{reached} of {len(values)} runs reached {goal.metric} {goal.target:g}; what that took is the mean over"
            " those that did, and says nothing about the others"
        )


def _about_pairs(groups: Sequence[str], found: Sequence[PairedDifference]) -> Iterator[str]:
    if len(set(groups)) < 2:
        return
    if not found:
        yield "no pairs: no two runs of different groups have the same seed and fleet, or met the same recorded run"
        return
    most = max(difference.pairs for difference in found)
    if sign_flip.smallest(most) > _USUAL_P:
        yield (
            f"with {_count(most, 'pair')}, p cannot be below {sign_flip.smallest(most):g}, however different two rules"
            f" are; for {_USUAL_P:g} it takes {sign_flip.pairs_for(_USUAL_P)}"
        )
    able = sum(difference.smallest_p <= _USUAL_P for difference in found)
    if able > 1:
        yield (
            f"{able} tests can give p ≤ {_USUAL_P:g}: with rules that are all alike, about {able * _USUAL_P:.2g} of"
            " them would, by chance"
        )


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
