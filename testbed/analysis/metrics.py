"""The summary of a run (summary.json), computed from the totals of its trace."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from testbed.analysis import energy, fairness, round_metrics
from testbed.analysis.run_tables import contributions, first_to_reach, metric_rows
from testbed.analysis.totals import Totals
from testbed.common.files.spool import RowSpool
from testbed.runs.results.summary import (
    ComputingSeconds,
    ContributionFairness,
    CostToReach,
    FinalModelDelivery,
    FleetEnergy,
    MetricRange,
    ModelOutOfRange,
    Summary,
)
from testbed.runs.results.table_rows import MetricRow, RoundRow

_MOST_REASONS = 10
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Accuracies for which the summary has the time, joules and bytes that they took."""


def summary(
    total: Totals,
    target: float | None = None,
    *,
    scored: Sequence[MetricRow] | None = None,
    rounds: RowSpool[RoundRow] | None = None,
) -> Summary:
    """The figures that follow from the trace; ``target`` is the accuracy that the run should reach, if any.

    ``scored`` are the rows of metrics.csv, if they are known already.
    """
    rows = metric_rows(total) if scored is None else scored
    accuracies = [row.scores["accuracy"] for row in rows if "accuracy" in row.scores]
    staleness, spent, header = total.made.mean_staleness, joules(total), total.header
    return Summary(
        name=header.name if header else None,
        strategy=header.strategy if header else None,
        seed=header.seed if header else None,
        devices=len(total.devices),
        seconds=round(total.seconds, 3),
        host_seconds=round(total.host_seconds(total.seconds), 3),
        dilation=total.dilation,
        clock=header.clock if header else "wall",
        stopped=total.stopped.reason if total.stopped else "the aggregator ended early",
        versions=total.versions,
        model_sha256=(total.stopped.model or None) if total.stopped else None,
        dispatched=total.dispatched,
        applied=total.applied,
        rejected=total.rejected,
        lost=total.lost,
        superseded=total.superseded,
        delivered=total.delivered,
        in_flight=total.in_flight,
        resent=total.resent,
        resumed=total.resumed,
        ignored=total.ignored,
        refused=total.refused,
        clipped=total.clipped,
        out_of_range=out_of_range(total),
        scripted=total.scripted,
        restarts=total.restarts,
        scores=scores(rows),
        final_accuracy=accuracies[-1] if accuracies else None,
        best_accuracy=max(accuracies) if accuracies else None,
        target_accuracy=target,
        to_accuracy=to_accuracy(rows, target),
        mean_staleness=None if staleness is None else round(staleness, 3),
        max_staleness=total.made.most_stale,
        updates_per_second=round(total.applied / total.seconds, 3) if total.seconds else None,
        reasons=dict(total.reasons.most_common(_MOST_REASONS)),
        refusals=dict(total.refusals.most_common(_MOST_REASONS)),
        computing=computing(total),
        abandoned_s=round(sum(device.abandoned_s for device in total.devices.values()), 3),
        bytes_up=sum(device.bytes_up for device in total.devices.values()),
        bytes_down=sum(device.bytes_down for device in total.devices.values()),
        energy_j=None if spent is None else spent.total_j,
        wasted_j=None if spent is None else spent.wasted_j,
        energy=spent,
        contribution=contribution(total),
        final_model=final_model(total),
        rounds=round_metrics.sums(rounds),
    )


def out_of_range(total: Totals) -> ModelOutOfRange | None:
    """When the model first left its range; None if it never did."""
    if not total.out_of_range:
        return None
    first, last = total.out_of_range[0], total.out_of_range[-1]
    return ModelOutOfRange(
        count=len(total.out_of_range),
        time_s=round(first.t, 4),
        version=first.version,
        device=first.device or None,
        norm=last.norm,
    )


def scores(rows: Sequence[MetricRow]) -> dict[str, MetricRange]:
    """Metric → its last, lowest and highest value."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.scores.items():
            values.setdefault(name, []).append(value)
    return {name: MetricRange(last=every[-1], lowest=min(every), highest=max(every)) for name, every in values.items()}


def to_accuracy(rows: Sequence[MetricRow], target: float | None = None) -> dict[str, CostToReach]:
    """Accuracy → the seconds, joules and bytes until it was reached, for all levels that were."""
    levels = sorted({*LEVELS, *([] if target is None else [target])})
    reached = {level: first_to_reach(rows, level) for level in levels}
    return {
        f"{level:g}": CostToReach(seconds=row.time_s, joules=row.joules, bytes=row.bytes)
        for level, row in reached.items()
        if row is not None
    }


def joules(total: Totals) -> FleetEnergy | None:
    """Energy of the whole fleet; None if a device has no power model."""
    if not total.energy.complete:
        return None
    phases: dict[str, float] = defaultdict(float)
    wasted: dict[str, float] = defaultdict(float)
    in_vain_by_device = total.energy.all_wasted()
    for name, device in total.energy.devices.items():
        for sums, found in ((phases, device.phases(total.seconds) or {}), (wasted, in_vain_by_device.get(name, {}))):
            for key, spent in found.items():
                sums[key] += spent
    every, in_vain = math.fsum(phases.values()), math.fsum(wasted.values())
    return FleetEnergy(
        model=energy.MODEL,
        total_j=round(every, 3),
        by_phase_j={phase: round(phases[phase], 3) for phase in energy.PHASES},
        wasted_j=round(in_vain, 3),
        wasted_by_fate_j={fate: round(wasted[fate], 3) for fate in sorted(wasted)},
        lost_transfers_j=round(sum(device.lost_transfers_j for device in total.energy.devices.values()), 3),
        joules_per_update=round(every / total.applied, 3) if total.applied else None,
    )


def contribution(total: Totals) -> ContributionFairness | None:
    """How evenly the devices contributed to the model; None if none did."""
    shares = list(contributions(total).values())
    if not any(shares):
        return None
    return ContributionFairness(jain=round(fairness.jain(shares), 4), gini=round(fairness.gini(shares), 4))


def final_model(total: Totals) -> FinalModelDelivery | None:
    """How many devices have the final model, and how long that took; None if it was not broadcast."""
    if not total.final_sent:
        return None
    began, ended = min(total.final_sent.values()), max(total.final_received.values(), default=total.seconds)
    return FinalModelDelivery(on=len(total.final_received), of=len(total.final_sent), seconds=round(ended - began, 3))


def computing(total: Totals) -> ComputingSeconds | None:
    """Seconds of computing, asked and obtained, and the most delayed device; None if no device has a fixed speed."""
    paced = {name: device for name, device in total.devices.items() if device.asked_s > 0}
    if not paced:
        return None
    worst = max(paced, key=lambda name: paced[name].obtained_s / paced[name].asked_s)
    return ComputingSeconds(
        asked_s=round(sum(device.asked_s for device in paced.values()), 3),
        obtained_s=round(sum(device.obtained_s for device in paced.values()), 3),
        slowest=worst,
        slowest_ratio=round(paced[worst].obtained_s / paced[worst].asked_s, 4),
    )
