"""Plain lines of text on a terminal."""

from __future__ import annotations

import math

from rich.console import Console


def say(console: Console, text: str) -> None:
    """Print a line as it is: names chosen by a user may look like markup."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def milliseconds(seconds: float) -> str:
    """Return ``seconds`` as text in milliseconds, with three significant figures and at most four decimals."""
    decimals = max(0, 2 - math.floor(math.log10(max(seconds * 1e3, 1e-6))))
    return f"{seconds * 1e3:.{min(decimals, 4)}f} ms"
