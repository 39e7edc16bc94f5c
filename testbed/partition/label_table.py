"""A partition as text: a row for each device, and how uneven the partition is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.common.console import say, table_cell
from testbed.partition.partition_summary import DeviceValues, LabelSummary, Moments, PartitionSummary, ValueSummary

_MOST_ROWS = 40
"""Devices that a terminal shows without --all."""
_MOST_FREQUENT = 4
"""Labels that are shown of a device if there is no room for all."""
_ENDLESS = 10_000
_Cells: TypeAlias = Sequence[Text]


def show(console: Console, summary: PartitionSummary, *, every: bool = False) -> None:
    """Print the summary. ``every``: all devices, however many."""
    say(console, _headline(summary))
    devices = len(summary.devices)
    many = devices > _MOST_ROWS and console.is_terminal and not every
    rows = _MOST_ROWS if many else devices
    shown, legend = (
        _fitting(console, summary, rows) if isinstance(summary, LabelSummary) else (_values(summary, rows), "")
    )
    console.print(shown)
    if legend:
        say(console, legend)
    if many:
        say(console, f"the first {rows} devices are shown; --all shows all {devices}")
    for line in _lines(summary):
        say(console, line)


def _headline(summary: PartitionSummary) -> str:
    of = f" of {len(summary.labels)} classes" if isinstance(summary, LabelSummary) else ""
    devices = f"{len(summary.devices)} device{'' if len(summary.devices) == 1 else 's'}"
    return (
        f"{summary.title}: {summary.training_samples} training samples{of} for {devices}, {summary.test_samples} to"
        " test with"
    )


def _lines(summary: PartitionSummary) -> Iterator[str]:
    sizes = f"from {summary.smallest} to {summary.largest}, median {summary.median:g}"
    unassigned = f"; {summary.unassigned} samples are on no device" if summary.unassigned else ""
    shared = "; some samples are on several devices" if summary.assigned_more_than_once else ""
    yield f"samples of a device: {sizes}{unassigned}{shared}"
    if isinstance(summary, LabelSummary):
        missing = [name for name, count in zip(summary.labels, summary.total, strict=True) if not count]
        yield (
            f"mean distance of a device's labels from those of all: {summary.distance:.3f}"
            " (total variation; 0: identical);"
            f" at random, with these sizes: {summary.distance_at_random:.3f}"
        )
        if missing:
            yield f"labels that no device has: {', '.join(missing)}"


# ---- classes


def _fitting(console: Console, summary: LabelSummary, rows: int) -> tuple[Table, str]:
    """Return a table with a column for each label, by name or by number with a legend, or else only frequent labels."""
    numbers = [str(label) for label in range(len(summary.labels))]
    named = ", ".join(f"{number} {name}" for number, name in zip(numbers, summary.labels, strict=True))
    for (headings, legend), gap in itertools.product(((summary.labels, ""), (numbers, f"labels: {named}")), (2, 1)):
        wide = _every_label(summary, rows, headings, gap)
        if console.measure(wide, options=console.options.update(width=_ENDLESS)).maximum <= console.width:
            return wide, legend
    return _frequent_labels(summary, rows), ""


def _every_label(summary: LabelSummary, rows: int, headings: Sequence[str], gap: int) -> Table:
    shown = _begun(summary, gap, "samples", "classes", *headings)
    by_device = zip(*summary.counts, strict=True)
    pairs = zip(summary.devices, by_device, strict=True)
    cells = ([Text(str(row.classes)), *map(_count, counts)] for row, counts in pairs)
    sums = ([_classes(counts), *map(_count, counts)] for counts in (summary.total, summary.test))
    return _filled(shown, summary, rows, cells, sums)


def _frequent_labels(summary: LabelSummary, rows: int) -> Table:
    shown = _begun(summary, 2, "samples", "classes")
    shown.add_column("most frequent", overflow="fold")
    by_device = zip(*summary.counts, strict=True)
    frequent = partial(_frequent, names=summary.labels)
    pairs = zip(summary.devices, by_device, strict=True)
    cells = ([Text(str(row.classes)), frequent(counts)] for row, counts in pairs)
    sums = ([_classes(counts), frequent(counts)] for counts in (summary.total, summary.test))
    return _filled(shown, summary, rows, cells, sums)


def _frequent(counts: Sequence[int], names: Sequence[str]) -> Text:
    first = sorted(range(len(counts)), key=lambda label: -counts[label])[:_MOST_FREQUENT]
    return Text(", ".join(f"{names[label]} ({counts[label]})" for label in first if counts[label]))


def _classes(counts: Sequence[int]) -> Text:
    """Return how many labels have samples."""
    return Text(str(sum(map(bool, counts))))


def _count(samples: int) -> Text:
    return Text(str(samples)) if samples else Text("·", style="dim")


# ---- values


def _values(summary: ValueSummary, rows: int) -> Table:
    shown = _begun(summary, 2, "samples", "mean", "std")
    sums = map(_moments, (summary.total, summary.test))
    return _filled(shown, summary, rows, map(_moments, summary.devices), sums)


def _moments(row: DeviceValues | Moments) -> list[Text]:
    return [Text("–" if value is None else f"{value:.4g}") for value in (row.mean, row.std)]


# ---- both


def _begun(summary: PartitionSummary, gap: int, *columns: str) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    shown.add_column("device", overflow="fold")
    if _has_owners(summary):
        shown.add_column("owner", overflow="fold")
    for column in columns:
        shown.add_column(table_cell(column), justify="right", no_wrap=True)
    return shown


def _filled(
    shown: Table, summary: PartitionSummary, rows: int, cells: Iterable[_Cells], sums: Iterable[_Cells]
) -> Table:
    """Add a row for each of the first devices, and the rows "total" and "test", to ``shown``; return it."""
    for row, more in zip(summary.devices[:rows], cells, strict=False):
        names = [table_cell(name) for name in (row.device, row.owner) if name is not None]
        shown.add_row(*names, str(row.samples), *more)
    left_out = len(summary.devices) - rows
    if left_out:
        shown.add_row(f"… {left_out} more", style="dim")
    samples = (sum(row.samples for row in summary.devices), summary.test_samples)
    for name, count, more in zip(("total", "test"), samples, sums, strict=True):
        shown.add_row(name, *([""] if _has_owners(summary) else []), str(count), *more, style="bold")
    return shown


def _has_owners(summary: PartitionSummary) -> bool:
    return summary.devices[0].owner is not None
