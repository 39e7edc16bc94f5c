"""Text on a terminal, for people: the one console of all commands, and of the Python API.

It never raises because nobody reads it (``terminal.output_stream``), and text of others cannot control the terminal
(``terminal.plain_text``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from testbed.common.terminal.output_stream import OutputStream
from testbed.common.terminal.plain_text import plain, plain_line


class TerminalConsole(Console):
    """A console on standard output or standard error, whichever stream that is when something is printed."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        """``options`` are those of rich's Console."""
        super().__init__(**({"file": OutputStream(lambda: _standard_stream(stderr))} | options))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with control characters of texts as escapes. Those of rich itself are marked as ``control``."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


def _standard_stream(stderr: bool) -> TextIO | None:
    """The stream itself: while rich shows something live, it replaces both by proxies that print on the console."""
    stream = sys.stderr if stderr else sys.stdout
    found: TextIO | None = getattr(stream, "rich_proxied_file", stream)
    return found


def say(console: Console, text: str) -> None:
    """Print a line as it is: names chosen by a user may look like markup."""
    console.print(plain_line(text), highlight=False, markup=False, emoji=False, soft_wrap=True)


def table_cell(text: str, style: str = "") -> Text:
    """Return a cell of a table with a name as it is, on one line: the width of a column follows from what is shown."""
    return Text(plain_line(text), style=style)


def milliseconds(seconds: float) -> str:
    """Return ``seconds`` as text in milliseconds, with three significant figures and at most four decimals."""
    decimals = max(0, 2 - math.floor(math.log10(max(seconds * 1e3, 1e-6))))
    return f"{seconds * 1e3:.{min(decimals, 4)}f} ms"
