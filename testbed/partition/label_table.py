"""A partition as text: a row for each device, and how uneven the partition is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.common.console import say

_MOST_ROWS = 40
"""Devices that a terminal shows without --all."""
_MOST_FREQUENT = 4
"""Labels that are shown of a device if there is no room for all."""
_ENDLESS = 10_000
_SUMS = ("total", "test")
"""The last rows of the table."""
_Cells: TypeAlias = Sequence[Text]


def show(console: Console, table: dict[str, Any], *, every: bool = False) -> None:
    """Print ``table``, as returned by ``partition_summary.as_table``. ``every``: all devices, however many."""
    say(console, _headline(table))
    many = len(table["devices"]) > _MOST_ROWS and console.is_terminal and not every
    rows = _MOST_ROWS if many else len(table["devices"])
    shown, legend = _fitting(console, table, rows) if "labels" in table else (_values(table, rows), "")
    console.print(shown)
    if legend:
        say(console, legend)
    if many:
        say(console, f"the first {rows} devices are shown; --all shows all {len(table['devices'])}")
    for line in _lines(table):
        say(console, line)


def _headline(table: dict[str, Any]) -> str:
    of = f" of {len(table['labels'])} classes" if "labels" in table else ""
    devices = f"{len(table['devices'])} device{'' if len(table['devices']) == 1 else 's'}"
    return (
        f"{table['title']}: {table['training_samples']} training samples{of} for {devices}, {table['test_samples']} to"
        " test with"
    )


def _lines(table: dict[str, Any]) -> Iterator[str]:
    sizes = f"from {table['smallest']} to {table['largest']}, median {table['median']:g}"
    unassigned = f"; {table['unassigned']} samples are on no device" if table["unassigned"] else ""
    shared = "; some samples are on several devices" if table["assigned_more_than_once"] else ""
    yield f"samples of a device: {sizes}{unassigned}{shared}"
    if "labels" in table:
        missing = [name for name, count in zip(table["labels"], table["total"], strict=True) if not count]
        yield (
            f"mean distance of a device's labels from those of all: {table['distance']:.3f}"
            " (total variation; 0: identical);"
            f" at random, with these sizes: {table['distance_at_random']:.3f}"
        )
        if missing:
            yield f"labels that no device has: {', '.join(missing)}"


# ---- classes


def _fitting(console: Console, table: dict[str, Any], rows: int) -> tuple[Table, str]:
    """Return a table with a column for each label, by name or by number with a legend, or else only frequent labels."""
    numbers = [str(label) for label in range(len(table["labels"]))]
    named = ", ".join(f"{number} {name}" for number, name in zip(numbers, table["labels"], strict=True))
    for (headings, legend), gap in itertools.product(((table["labels"], ""), (numbers, f"labels: {named}")), (2, 1)):
        wide = _every_label(table, rows, headings, gap)
        if console.measure(wide, options=console.options.update(width=_ENDLESS)).maximum <= console.width:
            return wide, legend
    return _frequent_labels(table, rows), ""


def _every_label(table: dict[str, Any], rows: int, headings: Sequence[str], gap: int) -> Table:
    shown = _begun(table, gap, "samples", "classes", *headings)
    by_device = zip(*table["counts"], strict=True)
    pairs = zip(table["devices"], by_device, strict=True)
    cells = ([Text(str(row["classes"])), *map(_count, counts)] for row, counts in pairs)
    sums = ([_classes(table[key]), *map(_count, table[key])] for key in _SUMS)
    return _filled(shown, table, rows, cells, sums)


def _frequent_labels(table: dict[str, Any], rows: int) -> Table:
    shown = _begun(table, 2, "samples", "classes")
    shown.add_column("most frequent", overflow="fold")
    by_device = zip(*table["counts"], strict=True)
    frequent = partial(_frequent, names=table["labels"])
    pairs = zip(table["devices"], by_device, strict=True)
    cells = ([Text(str(row["classes"])), frequent(counts)] for row, counts in pairs)
    return _filled(shown, table, rows, cells, ([_classes(table[key]), frequent(table[key])] for key in _SUMS))


def _frequent(counts: Sequence[int], names: Sequence[str]) -> Text:
    first = sorted(range(len(counts)), key=lambda label: -counts[label])[:_MOST_FREQUENT]
    return Text(", ".join(f"{names[label]} ({counts[label]})" for label in first if counts[label]))


def _classes(counts: Sequence[int]) -> Text:
    """Return how many labels have samples."""
    return Text(str(sum(map(bool, counts))))


def _count(samples: int) -> Text:
    return Text(str(samples)) if samples else Text("·", style="dim")


# ---- values


def _values(table: dict[str, Any], rows: int) -> Table:
    shown = _begun(table, 2, "samples", "mean", "std")
    return _filled(shown, table, rows, map(_moments, table["devices"]), (_moments(table[key]) for key in _SUMS))


def _moments(row: dict[str, Any]) -> list[Text]:
    return [Text("–" if row[key] is None else f"{row[key]:.4g}") for key in ("mean", "std")]


# ---- both


def _begun(table: dict[str, Any], gap: int, *columns: str) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    shown.add_column("device", overflow="fold")
    if _has_owners(table):
        shown.add_column("owner", overflow="fold")
    for column in columns:
        shown.add_column(Text(column), justify="right", no_wrap=True)  # as a Text: a name may look like markup
    return shown


def _filled(shown: Table, table: dict[str, Any], rows: int, cells: Iterable[_Cells], sums: Iterable[_Cells]) -> Table:
    """Add a row for each of the first devices, and the last rows, to ``shown``; return it."""
    owners = _has_owners(table)
    for row, more in zip(table["devices"][:rows], cells, strict=False):
        names = [Text(row["device"]), *([Text(row["owner"])] if owners else [])]
        shown.add_row(*names, str(row["samples"]), *more)
    left_out = len(table["devices"]) - rows
    if left_out:
        shown.add_row(f"… {left_out} more", style="dim")
    samples = (sum(row["samples"] for row in table["devices"]), table["test_samples"])
    for key, count, more in zip(_SUMS, samples, sums, strict=True):
        shown.add_row(key, *([""] if owners else []), str(count), *more, style="bold")
    return shown


def _has_owners(table: dict[str, Any]) -> bool:
    return "owner" in table["devices"][0]
