"""Standard output and standard error of a process whose work does not depend on who reads them.

Theory of operation. A reader may go away (``| head``, a closed terminal), a log may be on a full disk, an output may be
closed from the beginning (``>&-``), and an encoding may lack a character. Each of these would raise an exception in the
middle of the work that only wanted to show something. So the streams of all our processes are ``OutputStream``:

- What cannot be written is dropped, and the next text is tried again: a full disk may have space by then. The one
  exception is standard output of a command that does nothing but print (``list``, ``trace show``): it has no reason to
  go on, and ends as other Unix programs do. There, ``is_needed`` is true, and a failure raises ``OutputLost``.
- A character that the encoding lacks becomes an escape (``\\u2026``), which is also valid in a string of JSON. A byte
  of a file name that is not UTF-8 (a surrogate in Python) is printed as that byte.
- An output that was closed from the beginning is /dev/null. Its number must not be free: the next file or socket would
  get it, and all that native code prints would be written there.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

_OUTPUTS = {1: "stdout", 2: "stderr"}


class OutputLost(Exception):
    """Standard output cannot be written, and printing was the purpose of the command."""

    def __init__(self, error: OSError | ValueError) -> None:
        super().__init__(str(error))
        self.is_reader_gone = isinstance(error, BrokenPipeError)
        number = error.errno if isinstance(error, OSError) else errno.EBADF
        self.reason = os.strerror(number or errno.EIO)


class OutputStream(io.TextIOBase):
    """A text stream that drops what cannot be written, unless it ``is_needed``."""

    def __init__(self, stream: Callable[[], TextIO | None]) -> None:
        """``stream`` returns where texts go to at this moment; None: nowhere."""
        self._stream = stream
        self.is_needed = False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream(), "encoding", None) or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return getattr(self._stream(), "errors", None)

    @property
    def buffer(self) -> Any:
        """The binary stream below, for code that writes bytes."""
        return getattr(self._stream(), "buffer", None)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        stream = self._stream()
        try:
            return stream is not None and stream.isatty()
        except (OSError, ValueError):  # closed
            return False

    def fileno(self) -> int:
        stream = self._stream()
        if stream is None:
            raise io.UnsupportedOperation("fileno")
        return stream.fileno()

    def write(self, text: str) -> int:
        stream = self._stream()
        if stream is not None:
            try:
                _write(stream, text)
            except (OSError, ValueError) as error:
                self._note(error)
        return len(text)

    def flush(self) -> None:
        stream = self._stream()
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError) as error:
                self._note(error)

    def _note(self, error: OSError | ValueError) -> None:
        if self.is_needed:
            raise OutputLost(error) from None


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # nothing of it was written
        errors = stream.errors or "strict"
        stream.write("".join(_encodable(character, stream.encoding, errors) for character in text))


def _encodable(character: str, encoding: str, errors: str) -> str:
    """Return a character, or an escape if ``encoding`` lacks it."""
    try:
        character.encode(encoding, errors)
    except UnicodeEncodeError:
        units = character.encode("utf-16-be", "surrogatepass")  # JSON has two escapes for one character beyond U+FFFF
        return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
    return character


def take_over() -> None:
    """Make the standard output and standard error of this process such streams. Call it before any file is opened."""
    _fill(0, os.O_RDONLY)
    for number, name in _OUTPUTS.items():
        stream = getattr(sys, name)
        if isinstance(stream, OutputStream):
            continue
        if stream is None and _fill(number, os.O_WRONLY):
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  open as long as the process
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="surrogateescape")  # names of folders need not be UTF-8: print their bytes
        setattr(sys, name, OutputStream(_always(stream)))


def _always(stream: TextIO | None) -> Callable[[], TextIO | None]:
    return lambda: stream


def _fill(number: int, mode: int) -> bool:
    """Open /dev/null with the number of a standard stream that was closed from the beginning, and say whether it was.

    Programs that this process starts inherit it, as they inherit any other standard stream.
    """
    try:
        os.fstat(number)
        return False
    except OSError:
        opened = os.open(os.devnull, mode)
        if opened == number:
            os.set_inheritable(number, True)
        else:
            os.dup2(opened, number)
            os.close(opened)
        return True


def need_output(is_needed: bool) -> None:
    """Say whether this process is to end if its standard output cannot be written."""
    if isinstance(sys.stdout, OutputStream):
        sys.stdout.is_needed = is_needed
