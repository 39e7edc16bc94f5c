"""Figures with a row for each device: its energy, the wasted part of it, and its contribution to the model."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.analysis import energy
from testbed.report.content.report_data import RunData
from testbed.report.content.wording import joules, share
from testbed.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    ReportFigure,
    bars,
    by_device,
    stacked,
)

_PHASES = {"idle": GREY, "suspended": PURPLE, "compute": GREEN, "transmit": ORANGE, "receive": SKY}
_FATES = {"superseded": VERMILLION, "rejected": BLUE, "lost": PURPLE, energy.UNFINISHED: GREY}


def spent(run: RunData) -> Iterator[ReportFigure]:
    """Energy by phase and wasted energy, for devices with a power model."""
    rows = [row for row in run.devices if row.energy_j is not None]
    if not rows:
        return
    names = [row.device for row in rows]
    figure, axes = by_device(names, "joules (proxy)")
    parts = {phase: [getattr(row, f"{phase}_j") for row in rows] for phase in energy.PHASES}
    stacked(axes, parts, _PHASES)
    sums = {phase: sum(values) for phase, values in parts.items()}
    first = max(sums, key=lambda phase: sums[phase])
    every = sum(sums.values())
    gist = f"{joules(every)} in total, {energy.MODEL}" + (
        f"; most of it, {share(sums[first] / every)}, for {first}." if every else "."
    )
    yield ReportFigure(name="energy", title="Energy by phase (proxy)", gist=gist, figure=figure)

    wasted = {fate: [run.wasted[name].get(fate, 0.0) for name in names] for fate in run.fates}
    in_vain = sum(sum(values) for values in wasted.values())
    if not in_vain:
        return
    figure, axes = by_device(names, "joules (proxy)")
    stacked(axes, wasted, _FATES)
    gist = (
        f"{joules(in_vain)} ({share(in_vain / every)}) for updates that became part of no version,"
        f" most of it because they were {run.fates[0]}."
    )
    yield ReportFigure(name="waste", title="Wasted energy by how tickets ended (proxy)", gist=gist, figure=figure)


def contribution(run: RunData) -> Iterator[ReportFigure]:
    fairness = run.summary.contribution
    if fairness is None:
        return
    names = [row.device for row in run.devices]
    shares = [row.contribution for row in run.devices]
    figure, axes = by_device(names, "share of the weight of all updates")
    bars(axes, [0.0] * len(shares), shares, BLUE, "")
    axes.axvline(1 / len(shares), color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_xlim(0, max(shares) * 1.05)
    most = max(range(len(shares)), key=shares.__getitem__)
    gist = (
        f"Jain {fairness.jain:.3f} (1: all are equal), Gini {fairness.gini:.3f} (0: all are equal);"
        f" most by {names[most]}, {share(shares[most])}. Dashed: an equal share."
    )
    yield ReportFigure(name="contribution", title="Contribution by device", gist=gist, figure=figure)
