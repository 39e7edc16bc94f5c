"""What loading a data set says while it takes its time. ``showing.py`` shows it; most callers want silence."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Whoever wants to know how far loading is."""

    def start(self, what: str, done: int = 0, total: int | None = None) -> None:
        """This is under way: so much of it is done (bytes, or files); ``total`` is None where nobody knows it."""

    def tell(self, text: str) -> None:
        """Something that the user should know although loading goes on."""


class NoProgress:
    """Nobody wants to know."""

    def start(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Not shown."""

    def tell(self, text: str) -> None:
        """Not shown."""


NO_PROGRESS: Progress = NoProgress()
