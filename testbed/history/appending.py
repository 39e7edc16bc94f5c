"""A file that grows by whole lines; lines that the disk does not accept are kept in memory until it does."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from testbed.history.trace_mark import TraceMark, hash_of

_AT_ONCE = 1 << 20


class Appender:
    """Appends lines in order. Lines that cannot be written are kept and are written first at the next attempt.

    A write may stop in the middle of a line. The rest of that line is written next, so that only the last line of the
    file may be torn, and only temporarily.
    """

    def __init__(self, path: Path, continues_at: int = 0) -> None:
        """``continues_at``: bytes of the file that stay; the caller cuts off what follows them."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._hash = hash_of(path, continues_at) if continues_at else hashlib.sha256()
        self._kept = bytearray()
        self._torn = 0
        """Bytes at the end of the file that belong to an incomplete line."""
        self.problem: str | None = None
        """Why the last attempt to write failed; None if it did not."""

    @property
    def kept(self) -> int:
        """Bytes that are not in the file yet."""
        return len(self._kept)

    @property
    def mark(self) -> TraceMark:
        """The bytes that are in the file, and their hash."""
        return TraceMark(bytes=os.fstat(self._file).st_size, sha256=self._hash.hexdigest())

    def sync(self) -> None:
        """Wait until the disk has stored all bytes of the file."""
        os.fsync(self._file)

    def append(self, lines: bytes) -> None:
        if self._kept:
            self._kept += lines
            self.push()
        else:
            self._kept += lines[self._write(lines) :]

    def push(self) -> None:
        """Try again to write the bytes that are kept."""
        if self._kept:
            with memoryview(self._kept) as view:
                written = self._write(view)
            del self._kept[:written]

    def close(self) -> int:
        """Close the file, which then ends with a whole line. Returns the number of lines that could not be written."""
        self.push()
        if self._kept and self._torn:
            os.ftruncate(self._file, os.fstat(self._file).st_size - self._torn)
        os.close(self._file)
        return self._kept.count(b"\n")

    def _write(self, data: bytes | memoryview) -> int:
        """Write as much as possible; returns the number of bytes written."""
        done = 0
        self.problem = None
        while done < len(data):
            piece = bytes(data[done : done + _AT_ONCE])
            try:
                written = os.write(self._file, piece)
            except OSError as error:
                self.problem = error.strerror
                break
            self._hash.update(piece if written == len(piece) else piece[:written])
            end_of_line = piece.rfind(b"\n", 0, written)
            self._torn = self._torn + written if end_of_line < 0 else written - end_of_line - 1
            done += written
        return done
