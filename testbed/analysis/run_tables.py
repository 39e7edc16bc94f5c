"""Rows of metrics.csv and devices.csv, from the totals of a trace; ``version_table`` has those of versions.csv."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from testbed.analysis.energy import sums_until
from testbed.analysis.totals import DeviceTotals, Totals
from testbed.runs.results.table_rows import DeviceRow, MetricRow

# ---- over time


def metric_rows(total: Totals) -> list[MetricRow]:
    """Each scored version, at the moment at which it was made."""
    scores = sorted(total.scores, key=lambda score: score.version)
    joules = _joules(total, [score.made for score in scores])
    moved = _moved(total, [score.made for score in scores])
    return [
        MetricRow(
            time_s=round(score.made, 4),
            host_s=round(total.host_seconds(score.made), 4),
            version=score.version,
            joules=spent,
            bytes=size,
            scores={name: round(value, 6) for name, value in score.metrics.items()},
        )
        for score, spent, size in zip(scores, joules, moved, strict=True)
    ]


def _joules(total: Totals, moments: Sequence[float]) -> list[float | None]:
    """Joules of the whole fleet up to each moment; None if a device has no power model."""
    if not total.energy.complete:
        return [None] * len(moments)
    return [round(joules, 3) for joules in total.energy.joules_at(moments)]


def _moved(total: Totals, moments: Sequence[float]) -> list[int]:
    """Bytes of all transfers that ended before each moment."""
    return [int(size) for size in sums_until(np.array(moments), total.transfers, lambda block: block[:, 1])]


def first_to_reach(rows: Iterable[MetricRow], level: float, metric: str = "accuracy") -> MetricRow | None:
    """The first row with a score of at least ``level``; None if there is none."""
    return next((row for row in rows if row.scores.get(metric, -1.0) >= level), None)


# ---- by device


def device_rows(total: Totals) -> list[DeviceRow]:
    shares, wasted = contributions(total), total.energy.all_wasted()
    return [
        _device_row(name, device, total, shares[name], wasted.get(name, {})) for name, device in total.devices.items()
    ]


def _device_row(
    name: str, device: DeviceTotals, total: Totals, contribution: float, wasted: Mapping[str, float]
) -> DeviceRow:
    """The row of a device; ``wasted``: fate of tickets → joules."""
    phases, stale = device.energy.phases(total.seconds), device.stale_updates
    energy = None if phases is None else sum(phases.values())
    joules = {} if phases is None else {phase: round(spent, 3) for phase, spent in phases.items()}
    return DeviceRow(
        device=name,
        pid=device.pid,
        core=device.core,
        samples=device.samples,
        jobs=device.jobs,
        to_aggregator=device.to_aggregator,
        applied=device.applied,
        rejected=device.rejected,
        lost=device.lost,
        superseded=device.superseded,
        poisoned=device.poisoned,
        drops=device.drops,
        bytes_up=device.bytes_up,
        bytes_down=device.bytes_down,
        busy_s=round(device.busy_s, 3),
        download_s=round(device.download_s, 3),
        upload_s=round(device.upload_s, 3),
        waiting_s=round(device.waiting_s, 3),
        suspended_s=round(device.suspended_s, 3),
        dead_s=round(device.dead_s, 3),
        abandoned_s=round(device.abandoned_s, 3),
        idle_s=round(device.energy.idle(total.seconds), 3),
        asked_s=round(device.asked_s, 3),
        obtained_s=round(device.obtained_s, 3),
        energy_j=None if energy is None else round(energy, 3),
        idle_j=joules.get("idle"),
        suspended_j=joules.get("suspended"),
        compute_j=joules.get("compute"),
        transmit_j=joules.get("transmit"),
        receive_j=joules.get("receive"),
        wasted_j=None if device.energy.watts is None else round(math.fsum(wasted.values()), 3),
        joules_per_update=None if energy is None or not device.applied else round(energy / device.applied, 3),
        contribution=round(contribution, 4),
        first_loss=None if device.first_loss is None else round(device.first_loss, 6),
        last_loss=None if device.last_loss is None else round(device.last_loss, 6),
        missed=device.missed,
        host_cpu_s=round(device.host_cpu_s, 3),
        host_waited_s=round(device.host_waited_s, 3),
        mean_staleness=round(device.staleness / stale, 3) if stale else None,
    )


def contributions(total: Totals) -> dict[str, float]:
    """Device → its share of the sum of all weights that the strategy gave to updates."""
    weights = {name: device.weight for name, device in total.devices.items()}
    every = sum(weights.values())
    return {name: weight / every if every else 0.0 for name, weight in weights.items()}
