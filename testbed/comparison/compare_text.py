"""A comparison on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testbed.common.console import say, table_cell
from testbed.comparison.compare_tables import TextTable
from testbed.comparison.comparison import Comparison

_ENDLESS = 10_000


def show(console: Console, comparison: Comparison) -> None:
    say(console, comparison.headline)
    for each in comparison.tables:
        console.print()
        console.print(_fitting(console, each))
    console.print()
    for line in (*comparison.paired_by, *(f"note: {note}" for note in comparison.notes)):
        say(console, line)


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
        shown.add_row(table_cell(first), *(Text(cell.replace(" ± ", sign)) for cell in others))
    return shown
