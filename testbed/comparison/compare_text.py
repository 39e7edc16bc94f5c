"""A comparison on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.common.console import say
from testbed.comparison.compare_tables import TextTable, tables

_ENDLESS = 10_000


def show(console: Console, table: Mapping[str, Any]) -> None:
    say(console, headline(table))
    for each in tables(table):
        console.print()
        console.print(_fitting(console, each))
    console.print()
    for line in (*table["paired_by"], *(f"note: {note}" for note in table["notes"])):
        say(console, line)


def headline(table: Mapping[str, Any]) -> str:
    """The number of runs and groups, and the target, in a sentence."""
    runs, groups = len(table["runs"]), len(table["groups"])
    better = "at most" if table["lower"] else "at least"
    return (
        f"{runs} {'run' if runs == 1 else 'runs'} in {groups} {'group' if groups == 1 else 'groups'};"
        f" target: {table['metric']} of {better} {table['target']:g} ({table['target_is']}); mean ± half of the 95 %"
        " interval over runs"
    )


def _fitting(console: Console, each: TextTable) -> Table:
    """The table; on a narrow terminal with intervals below their means, so that no number is cut off."""
    wide = _shown(each, " ± ")
    needed = console.measure(wide, options=console.options.update(width=_ENDLESS)).maximum
    return wide if needed <= console.width else _shown(each, "\n± ")


def _shown(each: TextTable, sign: str) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column(each.columns[0], overflow="fold")
    for column in each.columns[1:]:
        shown.add_column(column, justify="right", overflow="fold")
    for first, *others in each.rows:
        shown.add_row(Text(first), *(Text(cell.replace(" ± ", sign)) for cell in others))  # a name may look like markup
    return shown
