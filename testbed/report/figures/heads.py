"""Figures and tables of clusters: their heads over time, their purity, and the updates that reach the aggregator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from testbed.report.content.report_data import RunData
from testbed.report.content.report_tables import Table
from testbed.report.content.wording import number, plural, seconds, share
from testbed.report.figures.style import (
    BLUE,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    ReportFigure,
    by_device,
    over_time,
    stacked,
)

_MOST_ROWS = 25
_MOST_NAMED = 12


def heads(run: RunData) -> Iterator[ReportFigure]:
    found = run.clusters
    if not found.clusterings:
        return
    names = [row.device for row in run.devices]
    rows = {name: row for row, name in enumerate(names)}
    figure, axes = by_device(names, "emulated seconds")
    for name, row in rows.items():
        spans = [
            (term.since, (run.total.seconds if term.until is None else term.until) - term.since)
            for term in found.head_terms
            if term.head == name
        ]
        axes.broken_barh(spans, (row - 0.38, 0.76), color=BLUE, linewidth=0)
    axes.set_xlim(0, run.total.seconds or 1.0)
    for each in found.clusterings:
        axes.axvline(each.t, color=PURPLE, linewidth=0.8, linestyle=(0, (3, 2)))
    marks = [(each.t, rows[each.old]) for each in found.replaced]
    if marks:
        axes.plot(*zip(*marks, strict=True), "x", color=VERMILLION, markersize=5)
    ever = len({term.head for term in found.head_terms})
    replaced = f"heads replaced (crosses): {len(marks)}" if marks else "no head was replaced"
    gist = (
        f"{plural(ever, 'device')} of {number(len(names))} were heads of a cluster at some time."
        f" Clusterings (dashed): {len(found.clusterings)}; {replaced}."
    )
    yield ReportFigure(name="heads", title="Heads of clusters", gist=gist, figure=figure)


def purity(run: RunData) -> Iterator[ReportFigure]:
    points = [(each.t, each.purity) for each in run.clusters.clusterings if each.purity is not None]
    if not points:
        return
    figure, axes = over_time(seconds=run.total.seconds, label="purity")
    moments, values = zip(*points, strict=True)
    axes.step([*moments, run.total.seconds], [*values, values[-1]], where="post", color=PURPLE)
    axes.plot(moments, values, "o", color=PURPLE, markersize=3.5)
    axes.set_ylim(0, 1.03)
    gist = (
        "Share of the devices with the same labels as most of their cluster, at each clustering:"
        f" {share(min(values))} at least, {share(max(values))} at most, {share(values[-1])} at the last."
    )
    yield ReportFigure(name="purity", title="Purity of clusters", gist=gist, figure=figure)


def at_aggregator(run: RunData) -> Iterator[ReportFigure]:
    found = run.clusters
    if not found.clusterings:
        return
    names = [row.device for row in run.devices]
    figure, axes = by_device(names, "updates at the aggregator")
    parts = {"as a head": found.by_heads, "of its own": found.by_devices}
    shown = {what: [float(counts[name]) for name in names] for what, counts in parts.items()}
    stacked(axes, shown, {"as a head": ORANGE, "of its own": SKY})
    sent = found.by_heads.total()
    gist = (
        f"{plural(sent, 'update')} from heads, merged from {plural(found.merged, 'update')} of devices, and"
        f" {number(found.by_devices.total())} directly from devices, for clusterings."
    )
    yield ReportFigure(name="at-aggregator", title="Updates that reached the aggregator", gist=gist, figure=figure)


def tables(run: RunData) -> list[Table]:
    found = run.clusters
    made = [
        (
            seconds(each.t),
            number(each.version),
            ", ".join(str(len(members)) for members in each.clusters),
            share(each.purity),
            _named(list(each.heads.values())),
        )
        for each in found.clusterings
    ]
    replaced = [(seconds(each.t), number(each.cluster), each.old, each.why, each.new) for each in found.replaced]
    return [
        _table("Clusterings", ("time", "version", "devices in each", "purity", "first heads"), made),
        _table("Heads that were replaced", ("time", "cluster", "head", "reason", "new head"), replaced),
    ]


def _table(caption: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    left = len(rows) - _MOST_ROWS
    caption += f" (the first {_MOST_ROWS} of {len(rows)})" if left > 0 else ""
    return Table(caption=caption, columns=columns, rows=list(rows[:_MOST_ROWS]))


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
