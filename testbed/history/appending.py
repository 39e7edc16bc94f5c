"""A file that grows by whole lines, and loses none of them while there is no room for them."""

from __future__ import annotations

import os
from pathlib import Path

_AT_ONCE = 1 << 20


class Appender:
    """Appends lines. What the file does not take is kept, in order, and goes first when it takes something again.

    A write may stop in the middle of a line: the rest of it is what is written next, so that no line is torn but the
    last one, for a while.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._kept = bytearray()
        self._torn = 0
        """Bytes at the end of the file that are the beginning of a line."""
        self.problem: str | None = None
        """Why the file took nothing, the last time that it was tried."""

    @property
    def kept(self) -> int:
        """Bytes that are not in the file yet."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes that are in the file."""
        return os.fstat(self._file).st_size

    def sync(self) -> None:
        """Have them on the disk."""
        os.fsync(self._file)

    def append(self, lines: bytes) -> None:
        if self._kept:
            self._kept += lines
            self.push()
        else:
            self._kept += lines[self._write(lines) :]

    def push(self) -> None:
        """Try again with what is kept."""
        if self._kept:
            with memoryview(self._kept) as view:
                written = self._write(view)
            del self._kept[:written]

    def close(self) -> int:
        """Gives the lines that could not be written, to the last. The file ends with a whole line in any case."""
        self.push()
        if self._kept and self._torn:
            os.ftruncate(self._file, os.fstat(self._file).st_size - self._torn)
        os.close(self._file)
        return self._kept.count(b"\n")

    def _write(self, data: bytes | memoryview) -> int:
        """Gives how many bytes the file took."""
        done = 0
        self.problem = None
        while done < len(data):
            piece = bytes(data[done : done + _AT_ONCE])
            try:
                written = os.write(self._file, piece)
            except OSError as error:
                self.problem = error.strerror
                break
            end_of_line = piece.rfind(b"\n", 0, written)
            self._torn = self._torn + written if end_of_line < 0 else written - end_of_line - 1
            done += written
        return done
