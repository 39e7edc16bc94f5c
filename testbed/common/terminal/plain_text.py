"""Text of others for a terminal: names in profiles and traces may contain characters that control it.

An escape sequence can move the cursor, change the title or hide what follows, and a right-to-left override shows a text
backwards. Such characters are printed as escapes (``\\x1b``), so that a reader sees that they are there.
"""

from __future__ import annotations

import re
import sys
import traceback

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""C0 and C1 without tab and line feed; marks, separators and overrides that change the direction or the line."""
_IN_TEXT, _IN_LINE = re.compile(f"[{_CONTROL}]"), re.compile(f"[{_CONTROL}\\t\\n]")


def plain(text: str) -> str:
    """Return ``text``, which may have several lines, with control characters as escapes."""
    return _IN_TEXT.sub(_escaped, text)


def plain_line(text: str) -> str:
    """Return ``text`` as one line, with control characters, tabs and line feeds as escapes."""
    return _IN_LINE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def show_line(text: str) -> None:
    """Print a line to standard output."""
    print(plain_line(text))


def show_titled(name: str, title: str, begin: str, end: str) -> None:
    """Print a name and its title to standard output, the name between two sequences that change its style."""
    print(f"{begin}{plain_line(name)}{end} {plain(title)}")


def show_json(text: str) -> None:
    """Print JSON to standard output. In JSON, a control character may be in a string only: as ``\\u009b``."""
    print(_IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def show_error(text: str) -> None:
    """Print an error as one line to standard error, whatever it quotes."""
    _to_errors(f"error: {plain_line(' '.join(text.split()))}")


def show_warning(text: str) -> None:
    """Print a warning as one line to standard error."""
    _to_errors(f"warning: {plain_line(text)}")


def show_traceback(details: str | None = None) -> None:
    """Print a traceback to standard error: the given one, or that of the exception which is being handled."""
    _to_errors(plain(details or traceback.format_exc()).rstrip("\n"))


def show_on_errors(text: str) -> None:
    """Print a line to standard error that is neither an error nor a warning."""
    _to_errors(plain_line(text))


def _to_errors(text: str) -> None:
    if sys.stderr is not None:  # closed from the beginning; print would take standard output instead
        print(text, file=sys.stderr)
