"""Rows of metrics.csv, versions.csv and devices.csv, from the totals of a trace. docs/metrics.md describes them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.analysis import energy
from testbed.analysis.totals import DeviceTotals, Totals, VersionTotals

_OWN_COLUMNS = ("time_s", "host_s", "version", "joules", "bytes")
METRIC_COLUMNS = (*_OWN_COLUMNS, "accuracy", "loss")
"""Columns of other metrics follow."""
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
    """Rows of metrics.csv: each scored version, at the moment at which it was made."""
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
    """Metric → value; a metric with the name of one of our own columns gets a prefix."""
    return {f"metric_{name}" if name in _OWN_COLUMNS else name: round(value, 6) for name, value in metrics.items()}


def metric_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of metrics.csv: each metric has one."""
    return list(dict.fromkeys([*METRIC_COLUMNS, *(name for row in rows for name in row)]))


def _joules(total: Totals, moments: Sequence[float]) -> list[float | None]:
    """Joules of the whole fleet up to each moment; None if a device has no power model."""
    if not total.energy.complete:
        return [None] * len(moments)
    return [round(joules, 3) for joules in total.energy.joules_at(moments)]


def _moved(total: Totals, moments: Sequence[float]) -> list[int]:
    """Bytes of all transfers that ended before each moment."""
    transfers = sorted(total.moved)
    ends = [end for end, _ in transfers]
    sums = [0, *itertools.accumulate(size for _, size in transfers)]
    return [sums[bisect.bisect_right(ends, moment)] for moment in moments]


def to_reach(rows: Sequence[dict[str, Any]], level: float, metric: str = "accuracy") -> dict[str, Any] | None:
    """The first row of metrics.csv with a score of at least ``level``; None if there is none."""
    return next((row for row in rows if row.get(metric, -1.0) >= level), None)


def seconds_to(total: Totals, accuracy: float) -> float | None:
    """When the first version with at least this accuracy was made; None if there is none."""
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
    """The plan of a round that took ``seconds``, and the share of the time budget used after it."""
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
    """Device → its share of the sum of all weights that the strategy gave to updates."""
    weights = {name: device.weight for name, device in total.devices.items()}
    every = sum(weights.values())
    return {name: weight / every if every else 0.0 for name, weight in weights.items()}


def _wasted(total: Totals, device: str) -> float | None:
    if total.energy.devices[device].watts is None:
        return None
    return round(math.fsum(total.energy.wasted(device).values()), 3)


def mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
