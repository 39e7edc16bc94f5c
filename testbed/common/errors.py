"""Errors that the user can correct; each is one line of text with a remedy. ``testbed.errors`` exports them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """The user asked for something that cannot be done; the text names the cause and the remedy.

    The command line prints the text as one line and exits with code 2.
    """


class ProfileError(UserError):
    """A profile or an option is wrong; the text names the source, the key, the value and the remedy."""

    def __init__(self, source: str, key: str, problem: str) -> None:
        self.source, self.key, self.problem = source, key, problem
        super().__init__(f"{source}: {key} {problem}" if key else f"{source}: {problem}")

    def __reduce__(self) -> tuple[type[ProfileError], tuple[str, str, str]]:
        """An exception may cross a process boundary, as with joblib."""
        return type(self), (self.source, self.key, self.problem)


class NotARun(UserError):
    """A path is not a run folder or the trace of a run; the text says what it is instead, if that is known."""


class UnreadableFile(UserError):
    """A file of a run is damaged, not complete, or of a newer version; the text names the file and the remedy."""


class HostTooSmall(UserError):
    """The host cannot keep the timing of an experiment; the text has the figures and what would fit."""


class RunFailed(Exception):
    """A run failed; what was recorded is kept in ``folder``. ``details``: a traceback, if its task cannot be loaded."""

    def __init__(self, problem: str, folder: Path | None = None, details: str = "") -> None:
        super().__init__(problem, folder, details)
        self.folder, self.details = folder, details

    def __str__(self) -> str:
        return str(self.args[0])


class ReplayDiffers(RunFailed):
    """A strict replay differs from the recorded run; its results are written to ``folder``."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP ended a run; its results up to then are in ``folder``: ``Run.open(error.folder)``."""

    def __init__(self, problem: str, folder: Path) -> None:
        super().__init__(problem, folder)
        self.folder = folder

    def __str__(self) -> str:
        return str(self.args[0])


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the most similar known name, and all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}? (known: {', '.join(names)})"
    return f"known: {', '.join(names)}" if names else "nothing is known here"
