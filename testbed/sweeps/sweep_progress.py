"""Progress of a sweep: one line that refreshes on a terminal, a line for each finished run elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from testbed.common.console import say
from testbed.runs.sweep_state import DONE, SweepCell


class SweepProgress:
    """Shows the progress of the runs of one plan."""

    def __init__(self, console: Console, cells: Sequence[SweepCell]) -> None:
        self._console, self._cells = console, cells
        # no refresh thread: this process forks
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def under_way(self, cell: SweepCell, seconds: float) -> None:
        if not self._console.is_terminal:
            return
        self._live.start()
        left = remaining(self._cells, self._from(cell))
        about = "about" if any(each.took is not None for each in self._cells) else "at least"
        rest = "" if left is None else f", {about} {duration(max(0.0, left - seconds))} left"
        line = f"run {self._number(cell)}: {cell.name}, {duration(seconds)}{rest}"
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def ended(self, cell: SweepCell, what: str) -> None:
        self._live.stop()
        left = remaining(self._cells, self._from(cell)[1:])
        rest = f"; about {duration(left)} left" if left else ""
        say(self._console, f"run {self._number(cell)}: {cell.name}: {what}{rest}")

    def _number(self, cell: SweepCell) -> str:
        return f"{self._cells.index(cell) + 1} of {len(self._cells)}"

    def _from(self, cell: SweepCell) -> list[SweepCell]:
        """Return the current run, and those after it that are not done."""
        return [cell, *(later for later in self._cells[self._cells.index(cell) + 1 :] if later.state != DONE)]


def remaining(cells: Sequence[SweepCell], to_do: Sequence[SweepCell]) -> float | None:
    """Estimate the host seconds of ``to_do``: by the mean of finished runs or, before there is one, by the profiles."""
    took = [cell.took for cell in cells if cell.state == DONE and cell.took is not None]
    if took:
        return len(to_do) * sum(took) / len(took)
    known = [cell.seconds for cell in to_do if cell.seconds is not None]
    return sum(known) if len(known) == len(to_do) else None


def duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {whole % 60:02} s" if minutes else f"{whole} s"
