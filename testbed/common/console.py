"""Plain lines of text on a terminal."""

from __future__ import annotations

from rich.console import Console


def say(console: Console, text: str) -> None:
    """A plain line: what a user named may look like markup."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)
