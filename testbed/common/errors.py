"""The errors that a user can mend, and the one-line form in which they are told."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user asked for cannot be done; the text names the cause and the remedy.

    The command line prints it as one line and exits with 2.
    """


class ProfileError(UserError):
    """A profile, or a value given on the command line, is wrong: names source, key, value, remedy."""

    def __init__(self, source: str, key: str, problem: str) -> None:
        self.source, self.key, self.problem = source, key, problem
        super().__init__(f"{source}: {key} {problem}" if key else f"{source}: {problem}")


def nearest(wrong: str, known: Iterable[str]) -> str:
    """A tail for an error about an unknown name: the near miss if there is one, else all names."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}? (known: {', '.join(names)})"
    return f"known: {', '.join(names)}" if names else "nothing is known here"
