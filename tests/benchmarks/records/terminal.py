"""Prints figures as they are measured, beside their aim and the last committed figure."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from tests.benchmarks.records import history
from tests.benchmarks.records.figure import show
from tests.benchmarks.records.history import Line, Name

_MARKS = {True: "[green]reached[/green]", False: "[red]MISSED[/red] ", None: "       "}
_NOTABLE = 0.1
_MANY_TIMES = 10.0
_WIDTHS = (58, 30, 12)


class Printer:
    """One line for each figure; ``committed`` has the last committed figures by name."""

    def __init__(self, console: Console, committed: dict[Name, Line]) -> None:
        self._console, self._committed = console, committed

    def title(self, name: str, purpose: str, pressure: float | None) -> None:
        self._console.print(
            f"\n[bold]{name}[/bold]: {escape(purpose)} (pressure on this host before it: {percent(pressure)})",
            highlight=False,
        )

    def failed(self, name: str, error: Exception) -> None:
        words = f"{name} failed: {type(error).__name__}: {error}"
        self._console.print(f"[red]{escape(words)}[/red]", highlight=False, soft_wrap=True)

    def figure(self, new: Line) -> None:
        name = new.row if new.column == "measured" else f"{new.row}: {new.column}"
        measured = show(new.value, new.unit)
        if new.values:
            measured += f" ({show(min(new.values))} to {show(max(new.values))})"
        cells = (escape(text).ljust(width) for text, width in zip((name, measured, new.aim), _WIDTHS, strict=True))
        before = self._committed.get(new.name)
        words = [*cells, _MARKS[new.reached], compared(new, before), f"pressure {percent(new.pressure[1])}"]
        self._console.print("  ".join(words), highlight=False, soft_wrap=True)
        if new.note:
            self._console.print(f"    {escape(new.note)}", highlight=False, style="dim", soft_wrap=True)


def compared(new: Line, before: Line | None) -> str:
    """The last committed figure, and how much better or worse the new one is."""
    if before is None:
        return "first figure"
    length = "" if new.quick == before.quick else ", quick" if before.quick else ", full"
    last = f"was {show(before.value, before.unit)} ({before.date[:10]}{length})"
    number = change(new, before)
    if number is None:
        return last
    text = f"{number:+.0%}" if number < _MANY_TIMES - 1 else f"×{number + 1:.0f}"
    if new.better_is_less is not None and abs(number) >= _NOTABLE:
        worse = (number > 0) == new.better_is_less
        text = f"[red]{text}, worse[/red]" if worse else f"[green]{text}, better[/green]"
    return f"{last}, {text}"


def change(new: Line, before: Line) -> float | None:
    """The relative change; None if one of them is not a number other than zero, or if they are not comparable."""
    if (
        new.quick != before.quick
        or new.unit != before.unit
        or isinstance(new.value, str)
        or isinstance(before.value, str)
    ):
        return None
    if new.value is None or not before.value:
        return None
    return new.value / before.value - 1


def percent(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"


def last_committed(text: str, host: tuple[str, int]) -> dict[Name, Line]:
    """The newest committed figure of each name on this host, from the text of the committed history."""
    return history.newest(history.of_host(history.read(text), host))
