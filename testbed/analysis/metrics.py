"""The summary of a run (summary.json), computed from the totals of its trace. docs/metrics.md describes every key."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from testbed.analysis import energy, fairness
from testbed.analysis.run_tables import contributions, metric_rows, to_reach
from testbed.analysis.totals import Totals

_MOST_REASONS = 10
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Accuracies for which the summary has the time, joules and bytes that they took."""


def summary(total: Totals, target: float | None = None) -> dict[str, Any]:
    """The figures of summary.json; ``target`` is the accuracy that the run should reach, if any."""
    rows = metric_rows(total)
    accuracies = [row["accuracy"] for row in rows if "accuracy" in row]
    staleness, spent = total.staleness, joules(total)
    return {
        "name": total.header.name if total.header else None,
        "strategy": total.header.strategy if total.header else None,
        "seed": total.header.seed if total.header else None,
        "devices": len(total.devices),
        "seconds": round(total.seconds, 3),
        "host_seconds": round(total.host_seconds(total.seconds), 3),
        "dilation": total.dilation,
        "stopped": total.stopped.reason if total.stopped else "the aggregator ended early",
        "versions": total.versions,
        "dispatched": total.dispatched,
        "applied": total.applied,
        "rejected": total.rejected,
        "lost": total.lost,
        "superseded": total.superseded,
        "delivered": total.delivered,
        "in_flight": total.in_flight,
        "resent": total.resent,
        "resumed": total.resumed,
        "ignored": total.ignored,
        "refused": total.refused,
        "scripted": total.scripted,
        "restarts": total.restarts,
        "scores": scores(total),
        "final_accuracy": accuracies[-1] if accuracies else None,
        "best_accuracy": max(accuracies) if accuracies else None,
        "target_accuracy": target,
        "to_accuracy": to_accuracy(rows, target),
        "mean_staleness": round(sum(staleness) / len(staleness), 3) if staleness else None,
        "max_staleness": max(staleness, default=None),
        "updates_per_second": round(total.applied / total.seconds, 3) if total.seconds else None,
        "reasons": dict(total.reasons.most_common(_MOST_REASONS)),
        "refusals": dict(total.refusals.most_common(_MOST_REASONS)),
        "computing": computing(total),
        "abandoned_s": round(sum(device.abandoned_s for device in total.devices.values()), 3),
        "bytes_up": sum(device.bytes_up for device in total.devices.values()),
        "bytes_down": sum(device.bytes_down for device in total.devices.values()),
        "energy_j": None if spent is None else spent["total_j"],
        "wasted_j": None if spent is None else spent["wasted_j"],
        "energy": spent,
        "contribution": contribution(total),
        "final_model": final_model(total),
    }


def scores(total: Totals) -> dict[str, dict[str, float]]:
    """Metric → its last, lowest and highest value."""
    values: dict[str, list[float]] = {}
    for score in sorted(total.scores, key=lambda score: score.version):
        for name, value in score.metrics.items():
            values.setdefault(name, []).append(round(value, 6))
    return {name: {"last": every[-1], "lowest": min(every), "highest": max(every)} for name, every in values.items()}


def to_accuracy(rows: Sequence[dict[str, Any]], target: float | None = None) -> dict[str, dict[str, Any]]:
    """Accuracy → the seconds, joules and bytes until it was reached, for all levels that were."""
    reached = {level: to_reach(rows, level) for level in sorted({*LEVELS, *([] if target is None else [target])})}
    return {
        f"{level:g}": {"seconds": row["time_s"], "joules": row["joules"], "bytes": row["bytes"]}
        for level, row in reached.items()
        if row is not None
    }


def joules(total: Totals) -> dict[str, Any] | None:
    """Energy of the whole fleet; None if a device has no power model."""
    if not total.energy.complete:
        return None
    phases: dict[str, float] = defaultdict(float)
    wasted: dict[str, float] = defaultdict(float)
    for name, device in total.energy.devices.items():
        for sums, found in ((phases, device.phases(total.seconds) or {}), (wasted, total.energy.wasted(name))):
            for key, spent in found.items():
                sums[key] += spent
    every, in_vain = math.fsum(phases.values()), math.fsum(wasted.values())
    return {
        "model": energy.MODEL,
        "total_j": round(every, 3),
        "by_phase_j": {phase: round(phases[phase], 3) for phase in energy.PHASES},
        "wasted_j": round(in_vain, 3),
        "wasted_by_fate_j": {fate: round(wasted[fate], 3) for fate in sorted(wasted)},
        "lost_transfers_j": round(sum(device.lost_transfers_j for device in total.energy.devices.values()), 3),
        "joules_per_update": round(every / total.applied, 3) if total.applied else None,
    }


def contribution(total: Totals) -> dict[str, Any] | None:
    """How evenly the devices contributed to the model; None if none did."""
    shares = list(contributions(total).values())
    if not any(shares):
        return None
    return {"jain": round(fairness.jain(shares), 4), "gini": round(fairness.gini(shares), 4)}


def final_model(total: Totals) -> dict[str, Any] | None:
    """How many devices have the final model, and how long that took; None if it was not broadcast."""
    if not total.final_sent:
        return None
    began, ended = min(total.final_sent.values()), max(total.final_received.values(), default=total.seconds)
    return {"on": len(total.final_received), "of": len(total.final_sent), "seconds": round(ended - began, 3)}


def computing(total: Totals) -> dict[str, Any] | None:
    """Seconds of computing, asked and obtained, and the most delayed device; None if no device has a fixed speed."""
    paced = {name: device for name, device in total.devices.items() if device.asked_s > 0}
    if not paced:
        return None
    worst = max(paced, key=lambda name: paced[name].obtained_s / paced[name].asked_s)
    return {
        "asked_s": round(sum(device.asked_s for device in paced.values()), 3),
        "obtained_s": round(sum(device.obtained_s for device in paced.values()), 3),
        "slowest": worst,
        "slowest_ratio": round(paced[worst].obtained_s / paced[worst].asked_s, 4),
    }
