"""A progress bar on stderr for loading that takes longer than a second."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from testbed.common.console import TerminalConsole, say

_PATIENCE = 1.0


class ProgressBar:
    """A :class:`testbed.common.progress_protocol.Progress`, used as a context manager.

    Messages are printed at once. A timer starts the bar, so that it also appears while a long step reports nothing.
    There is no bar if stderr is not a terminal.
    """

    def __init__(self, console: Console | None = None, patience: float = _PATIENCE) -> None:
        self._console = console or TerminalConsole(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._what = "loading"
        self._task = self._bar.add_task(self._what, total=None, amount="")
        self._timer = threading.Timer(patience, self._bar.start)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()  # it may be drawing: output after stop() would stay on the screen
        if self._bar.live.is_started:
            self._bar.stop()

    def start(self, what: str, done: int = 0, total: int | None = None) -> None:
        if what != self._what:
            self._bar.remove_task(self._task)  # rich cannot change a known total to unknown
            self._what, self._task = what, self._bar.add_task(what, total=total, amount="")
        self._bar.update(self._task, completed=done, total=total, amount=_amount(done, total))

    def show(self, text: str) -> None:
        say(self._console, text)


def _amount(done: int, total: int | None) -> str:
    """Return the amount in megabytes; empty for small numbers, which are counts of files."""
    if max(done, total or 0) < 10_000:
        return ""
    return f"{done / 1e6:.1f} MB" if total is None else f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
