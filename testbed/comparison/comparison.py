"""A comparison as plain values: groups with means and intervals, paired differences, and notes for the reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from testbed.analysis import energy
from testbed.comparison import interval, pairing, settings, sign_flip
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.goal import Goal
from testbed.comparison.pairing import Conditions, PairedDifference
from testbed.comparison.quantities import of_run, quantities

_USUAL_P = 0.05


def compare(runs: Sequence[ComparedRun], goal: Goal) -> dict[str, Any]:
    """The whole comparison of these runs, as the command prints it in JSON."""
    groups, differing = settings.labels(runs)
    values, conditions = [of_run(run, goal) for run in runs], pairing.conditions_of(runs)
    found = list(pairing.differences(groups, conditions, values))
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
            *differing,
            *_about_runs(runs, groups, conditions),
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


# ---- notes for the reader


def _about_runs(runs: Sequence[ComparedRun], groups: Sequence[str], conditions: Sequence[Conditions]) -> Iterator[str]:
    bare = [str(run.place) for run in runs if run.profile is None]
    if bare:
        yield f"no profile.toml, so that only the strategy's parameters are known: {', '.join(bare)}"
    failed = sum(run.fidelity == "FAIL" for run in runs)
    if failed:
        yield (
            f"the certificate of {failed} of {len(runs)} runs is FAIL (see runs.csv): the host was too slow, and their"
            " seconds are not reliable"
        )
    for (group, own), count in Counter(zip(groups, conditions, strict=True)).items():
        if count > 1:
            seed = next(run.header.seed for run, each in zip(runs, conditions, strict=True) if each == own)
            yield f"{group}: {count} runs have seed {seed}; they are not independent, so the interval is too narrow"


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
            f"the initial model of {untrained} of {len(runs)} runs already has {goal.metric} {goal.target:g}, so that"
            " reaching it means nothing; name another with --target"
        )
    reached = sum(table["seconds_to_target"] is not None for table in values)
    if reached < len(values):
        yield (
            f"{reached} of {len(values)} runs reached {goal.metric} {goal.target:g}; the means of seconds, joules and"
            " bytes to it are over these runs only"
        )


def _about_pairs(groups: Sequence[str], found: Sequence[PairedDifference]) -> Iterator[str]:
    if len(set(groups)) < 2:
        return
    if not found:
        yield "no pairs: no two runs of different groups have the same seed and fleet, or replay the same run"
        return
    most = max(difference.pairs for difference in found)
    if sign_flip.smallest(most) > _USUAL_P:
        yield (
            f"with {_count(most, 'pair')}, p cannot be below {sign_flip.smallest(most):g}, however different two"
            f" strategies are; p ≤ {_USUAL_P:g} needs {sign_flip.pairs_for(_USUAL_P)} pairs"
        )
    able = sum(difference.smallest_p <= _USUAL_P for difference in found)
    if able > 1:
        yield (
            f"{able} tests can give p ≤ {_USUAL_P:g}: if all strategies were equal, about {able * _USUAL_P:.2g} of them"
            " would, by chance"
        )


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
