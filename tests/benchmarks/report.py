"""A benchmark's result: the measurement, the target, and whether it was reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    what: str
    measured: str
    target: str = ""
    reached: bool | None = None
    """None: no target, printed for comparison."""


def show(title: str, results: Iterable[Result]) -> bool:
    """Print a table. Returns whether every target was reached."""
    table = Table(title=title, title_justify="left", box=None)
    for column in ("what", "measured", "target", ""):
        table.add_column(column)
    reached = True
    for result in results:
        mark = {True: "[green]reached[/green]", False: "[red]MISSED[/red]", None: ""}[result.reached]
        table.add_row(result.what, result.measured, result.target, mark)
        reached = reached and result.reached is not False
    Console(width=140).print(table, "")
    return reached
