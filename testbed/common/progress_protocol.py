"""The interface through which loading of a data set reports its progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives progress reports. ``testbed.learning.data.progress_bar`` shows them on a terminal."""

    def start(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Report that ``what`` has started, or how far it is: bytes or files ``done`` of ``total`` (None: unknown)."""

    def show(self, text: str) -> None:
        """Show a message to the user; loading continues."""


class NoProgress:
    """Shows nothing."""

    def start(self, what: str, done: int = 0, total: int | None = None) -> None:
        """Ignored."""

    def show(self, text: str) -> None:
        """Ignored."""


NO_PROGRESS: Progress = NoProgress()
