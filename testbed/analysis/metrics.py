"""Tables and the summary of a run: pure functions of what its trace adds up to. docs/metrics.md tells every column."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.analysis import energy, fairness
from testbed.analysis.totals import DeviceTotals, Totals, VersionTotals

_MOST_REASONS = 10
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""Accuracies of which it is told what they took."""
_OWN_COLUMNS = ("time_s", "host_s", "version", "joules", "bytes")
METRIC_COLUMNS = (*_OWN_COLUMNS, "accuracy", "loss")
"""Those of other metrics follow."""
VERSION_COLUMNS = (
    "version",
    "time_s",
    "latency_s",
    "updates",
    "new_updates",
    "weight",
    "mean_staleness",
    "max_staleness",
    "planned_s",
    "queue_s",
    "time_usage",
)
_SECONDS = (
    "busy_s",
    "download_s",
    "upload_s",
    "waiting_s",
    "suspended_s",
    "dead_s",
    "abandoned_s",
    "asked_s",
    "obtained_s",
    "host_cpu_s",
    "host_waited_s",
)
_JOULES = tuple(f"{phase}_j" for phase in energy.PHASES)
DEVICE_COLUMNS = (
    "device",
    "pid",
    "core",
    "samples",
    "jobs",
    "to_aggregator",
    "applied",
    "rejected",
    "lost",
    "superseded",
    "drops",
    "bytes_up",
    "bytes_down",
    "busy_s",
    "download_s",
    "upload_s",
    "waiting_s",
    "suspended_s",
    "dead_s",
    "abandoned_s",
    "idle_s",
    "asked_s",
    "obtained_s",
    "energy_j",
    *_JOULES,
    "wasted_j",
    "joules_per_update",
    "contribution",
    "first_loss",
    "last_loss",
    "missed",
    "host_cpu_s",
    "host_waited_s",
    "mean_staleness",
)


# ---- over time


def metric_rows(total: Totals) -> list[dict[str, Any]]:
    """Rows of metrics.csv: each version that was scored, at the moment at which it came to be."""
    scores = sorted(total.scores, key=lambda score: score.version)
    joules = _joules(total, [score.made for score in scores])
    moved = _moved(total, [score.made for score in scores])
    return [
        {
            "time_s": round(score.made, 4),
            "host_s": round(total.host_seconds(score.made), 4),
            "version": score.version,
            "joules": spent,
            "bytes": size,
            **_scored(score.metrics),
        }
        for score, spent, size in zip(scores, joules, moved, strict=True)
    ]


def _scored(metrics: Mapping[str, float]) -> dict[str, float]:
    """By its name, unless that is one of ours."""
    return {f"metric_{name}" if name in _OWN_COLUMNS else name: round(value, 6) for name, value in metrics.items()}


def metric_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of metrics.csv: whatever was scored has one."""
    return list(dict.fromkeys([*METRIC_COLUMNS, *(name for row in rows for name in row)]))


def _joules(total: Totals, moments: Sequence[float]) -> list[float | None]:
    """What the whole fleet had spent by these moments."""
    if not total.energy.complete:
        return [None] * len(moments)
    return [round(joules, 3) for joules in total.energy.joules_at(moments)]


def _moved(total: Totals, moments: Sequence[float]) -> list[int]:
    """Bytes of all transfers that had ended by these moments."""
    transfers = sorted(total.moved)
    ends = [end for end, _ in transfers]
    sums = [0, *itertools.accumulate(size for _, size in transfers)]
    return [sums[bisect.bisect_right(ends, moment)] for moment in moments]


def to_reach(rows: Sequence[dict[str, Any]], level: float, metric: str = "accuracy") -> dict[str, Any] | None:
    """The first row of metrics.csv that is scored at least so high; None if none is."""
    return next((row for row in rows if row.get(metric, -1.0) >= level), None)


def seconds_to(total: Totals, accuracy: float) -> float | None:
    """When a version came to be that was scored at least so high; None if none was."""
    row = to_reach(metric_rows(total), accuracy)
    return None if row is None else row["time_s"]


def version_rows(total: Totals) -> list[dict[str, Any]]:
    """Rows of versions.csv."""
    rows, before = [], 0.0
    for made in total.made:
        staleness = mean(made.staleness)
        rows.append(
            {
                "version": made.version,
                "time_s": round(made.t, 4),
                "latency_s": round(made.t - before, 4),
                "updates": made.updates,
                "new_updates": len(made.staleness),
                "weight": round(made.weight, 6),
                "mean_staleness": None if staleness is None else round(staleness, 3),
                "max_staleness": max(made.staleness, default=None),
                **_planned(made, made.t - before),
            }
        )
        before = made.t
    return rows


def _planned(made: VersionTotals, seconds: float) -> dict[str, float | None]:
    """What the plan of the round said that took so long, and the part of all time that is used up with it."""
    plan = made.plan
    if plan is None:
        return dict.fromkeys(("planned_s", "queue_s", "time_usage"))
    return {
        "planned_s": round(plan.seconds, 4),
        "queue_s": round(plan.queue, 4),
        "time_usage": round((plan.spent + seconds) / plan.budget, 6),
    }


# ---- by device


def device_rows(total: Totals) -> list[dict[str, Any]]:
    """Rows of devices.csv."""
    shares = contributions(total)
    return [
        _device_row(name, device, total.seconds)
        | {"contribution": round(shares[name], 4), "wasted_j": _wasted(total, name)}
        for name, device in total.devices.items()
    ]


def _device_row(name: str, device: DeviceTotals, seconds: float) -> dict[str, Any]:
    phases, staleness = device.energy.phases(seconds), mean(device.staleness)
    joules = None if phases is None else sum(phases.values())
    values = {column: getattr(device, column, None) for column in DEVICE_COLUMNS}
    times = {column: round(getattr(device, column), 3) for column in _SECONDS}
    return (
        values
        | times
        | {
            "device": name,
            "idle_s": round(device.energy.idle(seconds), 3),
            "energy_j": None if joules is None else round(joules, 3),
            **{f"{phase}_j": None if phases is None else round(phases[phase], 3) for phase in energy.PHASES},
            "joules_per_update": None if joules is None or not device.applied else round(joules / device.applied, 3),
            "first_loss": round(device.losses[0][1], 6) if device.losses else None,
            "last_loss": round(device.losses[-1][1], 6) if device.losses else None,
            "mean_staleness": None if staleness is None else round(staleness, 3),
        }
    )


def contributions(total: Totals) -> dict[str, float]:
    """Device → its share of all weight that the rule gave to updates: whose data shaped the model."""
    weights = {name: device.weight for name, device in total.devices.items()}
    every = sum(weights.values())
    return {name: weight / every if every else 0.0 for name, weight in weights.items()}


def _wasted(total: Totals, device: str) -> float | None:
    if total.energy.devices[device].watts is None:
        return None
    return round(math.fsum(total.energy.wasted(device).values()), 3)


# ---- in short


def summary(total: Totals, target: float | None = None) -> dict[str, Any]:
    """The figures of summary.json; ``target``: an accuracy that the run was to reach."""
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
    """Level → the seconds, joules and bytes that it took, for the levels that were reached."""
    reached = {level: to_reach(rows, level) for level in sorted({*LEVELS, *([] if target is None else [target])})}
    return {
        f"{level:g}": {"seconds": row["time_s"], "joules": row["joules"], "bytes": row["bytes"]}
        for level, row in reached.items()
        if row is not None
    }


def joules(total: Totals) -> dict[str, Any] | None:
    """Of the whole fleet; None if a device has no power model."""
    if not total.energy.complete:
        return None
    phases: dict[str, float] = defaultdict(float)
    wasted: dict[str, float] = defaultdict(float)
    for name, device in total.energy.devices.items():
        for sums, found in ((phases, device.phases(total.seconds) or {}), (wasted, total.energy.wasted(name))):
            for key, spent in found.items():
                sums[key] += spent
    every, vain = math.fsum(phases.values()), math.fsum(wasted.values())
    return {
        "model": energy.MODEL,
        "total_j": round(every, 3),
        "by_phase_j": {phase: round(phases[phase], 3) for phase in energy.PHASES},
        "wasted_j": round(vain, 3),
        "wasted_by_fate_j": {fate: round(wasted[fate], 3) for fate in sorted(wasted)},
        "lost_transfers_j": round(sum(device.lost_transfers_j for device in total.energy.devices.values()), 3),
        "joules_per_update": round(every / total.applied, 3) if total.applied else None,
    }


def contribution(total: Totals) -> dict[str, Any] | None:
    """How evenly devices shaped the model; None if nobody did."""
    shares = list(contributions(total).values())
    if not any(shares):
        return None
    return {"jain": round(fairness.jain(shares), 4), "gini": round(fairness.gini(shares), 4)}


def final_model(total: Totals) -> dict[str, Any] | None:
    """On how many devices the final model is, and how long that took; None for rules that do not hand it out."""
    if not total.handed_out:
        return None
    began, ended = min(total.handed_out.values()), max(total.has_final.values(), default=total.seconds)
    return {"on": len(total.has_final), "of": len(total.handed_out), "seconds": round(ended - began, 3)}


def computing(total: Totals) -> dict[str, Any] | None:
    """Seconds of computing asked for and obtained, and the device that was slowed most; None if none was paced."""
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


def mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
