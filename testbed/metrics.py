"""Tables and the summary of a run: pure functions of what its trace adds up to."""

from __future__ import annotations

from typing import Any

from testbed.totals import DeviceTotals, Totals

_MOST_REASONS = 10
METRIC_COLUMNS = ("time_s", "host_s", "version", "accuracy", "loss")
DEVICE_COLUMNS = (
    "device", "pid", "core", "samples", "jobs", "applied", "rejected", "lost", "superseded", "drops",
    "bytes_up", "bytes_down", "busy_s", "transfer_s", "suspended_s", "dead_s", "abandoned_s", "idle_s", "asked_s",
    "obtained_s", "energy_j", "missed", "host_cpu_s", "host_waited_s", "mean_staleness",
)  # fmt: skip
_SECONDS = (
    "busy_s", "transfer_s", "suspended_s", "dead_s", "abandoned_s", "asked_s", "obtained_s", "host_cpu_s",
    "host_waited_s",
)  # fmt: skip


def metric_rows(total: Totals) -> list[dict[str, Any]]:
    """Rows of metrics.csv: each version that was scored, at the moment at which it came to be."""
    rows = []
    for score in sorted(total.scores, key=lambda score: score.version):
        metrics = {name: round(value, 6) for name, value in score.metrics.items()}
        host = round(score.made * total.dilation, 4)
        rows.append({"time_s": round(score.made, 4), "host_s": host, "version": score.version, **metrics})
    return rows


def seconds_to(total: Totals, accuracy: float) -> float | None:
    """When a version came to be that was scored at least so high; None if none was."""
    return next((row["time_s"] for row in metric_rows(total) if row.get("accuracy", -1.0) >= accuracy), None)


def device_rows(total: Totals) -> list[dict[str, Any]]:
    """Rows of devices.csv."""
    return [_device_row(name, device, total.seconds) for name, device in total.devices.items()]


def _device_row(name: str, device: DeviceTotals, seconds: float) -> dict[str, Any]:
    idle = max(0.0, seconds - device.busy_s - device.transfer_s - device.suspended_s - device.dead_s)
    joules, staleness = device.joules(seconds), mean(device.staleness)
    values = {column: getattr(device, column, None) for column in DEVICE_COLUMNS}
    times = {column: round(getattr(device, column), 3) for column in _SECONDS}
    return values | times | {
        "device": name, "idle_s": round(idle, 3), "energy_j": None if joules is None else round(joules, 3),
        "mean_staleness": None if staleness is None else round(staleness, 3),
    }  # fmt: skip


def summary(total: Totals) -> dict[str, Any]:
    """The figures of summary.json."""
    accuracies = [row["accuracy"] for row in metric_rows(total) if "accuracy" in row]
    staleness = mean(total.staleness)
    return {
        "name": total.header.name if total.header else None,
        "strategy": total.header.strategy if total.header else None,
        "seed": total.header.seed if total.header else None,
        "devices": len(total.devices),
        "seconds": round(total.seconds, 3),
        "host_seconds": round(total.seconds * total.dilation, 3),
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
        "ignored": total.ignored,
        "refused": total.refused,
        "scripted": total.scripted,
        "final_accuracy": accuracies[-1] if accuracies else None,
        "best_accuracy": max(accuracies) if accuracies else None,
        "mean_staleness": None if staleness is None else round(staleness, 3),
        "max_staleness": max(total.staleness, default=None),
        "updates_per_second": round(total.applied / total.seconds, 3) if total.seconds else None,
        "reasons": dict(total.reasons.most_common(_MOST_REASONS)),
        "computing": computing(total),
        "abandoned_s": round(sum(device.abandoned_s for device in total.devices.values()), 3),
        "energy_j": _energy(total),
        "final_model": final_model(total),
    }


def final_model(total: Totals) -> dict[str, Any] | None:
    """On how many devices the final model is, and how long that took; None for rules that do not hand it out."""
    if not total.handed_out:
        return None
    began, ended = min(total.handed_out.values()), max(total.has_final.values(), default=total.seconds)
    return {"on": len(total.has_final), "of": len(total.handed_out), "seconds": round(ended - began, 3)}


def _energy(total: Totals) -> float | None:
    """Joules of the whole fleet; None if a device has no power model."""
    each = [device.joules(total.seconds) for device in total.devices.values()]
    known = [joules for joules in each if joules is not None]
    return round(sum(known), 3) if known and len(known) == len(each) else None


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


def mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None
