"""The live view of a run: a table that refreshes on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from testbed.common.console import say, table_cell
from testbed.common.terminal.plain_text import plain_line

if TYPE_CHECKING:
    from aggregator.process.status import Status

_LINE_SECONDS = 5.0
_REFRESH_SECONDS = 0.1
_CELL_SECONDS = 1.0
_CELL_ROWS = 12
_SILENT_SECONDS = 2.0
_MOST_ROWS = 24
_WARMING = "warming up: loading the data, training one step …"
_STOPPING = "stopping: the results are kept; interrupt again to end at once"
_STYLES = {
    "idle": "dim",
    "dispatched": "cyan",
    "downloading": "cyan",
    "training": "green",
    "waiting": "magenta",
    "uploading": "blue",
    "suspended": "yellow",
    "gone": "red",
    "stopped": "dim",
}


class Quiet:
    """Shows only warnings, on standard error."""

    def __init__(self, errors: Console) -> None:
        self._errors = errors

    def starting(self, ready: int, total: int) -> None:
        """Nothing to show."""

    def status(self, status: Status) -> None:
        """Nothing to show."""

    def stopping(self) -> None:
        """Nothing to show."""

    def note(self, text: str) -> None:
        self._errors.print(Text(f"warning: {plain_line(text)}", style="yellow"), soft_wrap=True)

    def close(self) -> None:
        """Nothing to close."""


class Lines(Quiet):
    """A line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, errors: Console) -> None:
        super().__init__(errors)
        self._console = console
        self._next = 0.0
        self._print(_WARMING)

    def starting(self, ready: int, total: int) -> None:
        if ready in (1, total) and total > 1:
            self._print(f"started {ready} of {total} devices")

    def status(self, status: Status) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            self._print(headline(status))

    def stopping(self) -> None:
        self._print(_STOPPING)

    def _print(self, text: str) -> None:
        say(self._console, text)


class Screen(Quiet):
    """The fleet as a table that refreshes in place."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)  # rich prints warnings above the table
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._notice = Text("")
        self._live.start()
        try:
            self._live.update(Text(_WARMING), refresh=True)
        except BaseException:
            self._live.stop()  # or the standard streams stay redirected, and the cursor hidden
            raise

    def starting(self, ready: int, total: int) -> None:
        self._live.update(Text(f"starting devices: {ready} of {total}"), refresh=True)

    def status(self, status: Status) -> None:
        line = Text(headline(status), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(fleet_table(status, self._rows()), line, self._notice), refresh=True)

    def stopping(self) -> None:
        self._notice = Text(_STOPPING, style="yellow")
        self._live.update(self._notice, refresh=True)

    def close(self) -> None:
        self._live.stop()

    def _rows(self) -> int:
        return max(4, min(_MOST_ROWS, self._console.size.height - 8))


class NotebookView(Quiet):
    """The fleet as a table that refreshes in a notebook's cell; it needs no package besides the notebook's own."""

    def __init__(self, errors: Console) -> None:
        from IPython.display import display  # there is no notebook without it

        super().__init__(errors)
        self._handle = display(Text(_WARMING), display_id=True)
        self._next, self._last = 0.0, ""

    def starting(self, ready: int, total: int) -> None:
        self._handle.update(Text(f"starting devices: {ready} of {total}"))

    def status(self, status: Status) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _CELL_SECONDS
            table = fleet_table(status, _CELL_ROWS)
            table.caption = self._last = headline(status)
            self._handle.update(table)

    def stopping(self) -> None:
        self._handle.update(Text(_STOPPING))

    def close(self) -> None:
        self._handle.update(Text(self._last))


def headline(status: Status) -> str:
    """Return one line: time, version, scores and counts."""
    seconds, dilation, tally = status.t, status.dilation, status.tally
    here = f" ({seconds * dilation:.0f} s here)" if dilation != 1 else ""
    metrics = "  ".join(f"{name} {value:.3f}" for name, value in status.metrics.items())
    per_second = tally.applied / seconds if seconds > 0 else 0.0
    parts = [
        f"{seconds:5.1f} s{here}",
        f"version {status.version}",
        metrics or "not scored yet",
        f"{per_second:.1f} upd/s",
        f"rejected {tally.rejected}",
        f"lost {tally.lost}",
    ]
    return "  ".join(parts)


def fleet_table(status: Status, rows: int) -> Table:
    """Return state, version, staleness and drops of the devices, in at most ``rows`` rows."""
    table = Table(box=None, pad_edge=False)
    table.add_column("device")
    table.add_column("state", min_width=13)
    for name in ("version", "staleness", "drops"):
        table.add_column(name, justify="right")
    devices = list(status.devices.items())
    shown = devices if len(devices) <= rows else devices[: rows - 1]
    for name, device in shown:
        version, staleness = ("", "") if device.base is None else (str(device.base), str(status.version - device.base))
        progress = "" if device.progress is None else f" {device.progress:4.0%}"
        label = Text(f"{device.state}{progress}", style=_STYLES.get(device.state, ""))
        table.add_row(table_cell(name), label, version, staleness, str(device.drops))
    if len(shown) < len(devices):
        table.add_row(f"… and {len(devices) - len(shown)} more", "", "", "", "")
    return table


def view(console: Console, errors: Console, *, quiet: bool) -> Quiet:
    """Return the view that fits the console."""
    if quiet:
        return Quiet(errors)
    if console.is_jupyter:
        return NotebookView(errors)
    return Screen(console) if console.is_terminal else Lines(console, errors)


def status(console: Console, text: str) -> contextlib.AbstractContextManager[object]:
    """Show ``text`` with a spinner on a terminal, and nothing elsewhere."""
    return console.status(text) if console.is_terminal else contextlib.nullcontext()


@contextlib.contextmanager
def progress(console: Console, what: str, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes the share of ``what`` that is done, and shows it after the first two seconds:
    in one place on a terminal, as a line every few seconds elsewhere.
    """
    upcoming = time.monotonic() + _SILENT_SECONDS
    shown = Live(console=console, auto_refresh=False, transient=True)

    def show(share: float) -> None:
        nonlocal upcoming
        if quiet or time.monotonic() < upcoming:
            return
        line = Text(f"{what}: {share:.0%}")
        if console.is_terminal:
            shown.start()
            shown.update(line, refresh=True)
            upcoming = time.monotonic() + _REFRESH_SECONDS
        else:
            console.print(line, soft_wrap=True)
            upcoming = time.monotonic() + _LINE_SECONDS

    try:
        yield show
    finally:
        shown.stop()
