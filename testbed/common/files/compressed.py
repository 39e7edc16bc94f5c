"""Reading of files that may be compressed by gzip; the first bytes decide, not the file name.

A file of 10 kB can unpack to 10 MB of zeros, and one of 10 MB to 10 GB. Traces and logs unpack to 5 to 20 times their
size (measured: 4 to 9), so what unpacks to more than ``TIMES`` times its size is refused. It is judged while it is
read, after ``UNJUDGED_BYTES``: so little more than these is unpacked in vain, whatever the size of the file. There is
no setting for it: a file that is unpacked already has no such limit, and the error says so.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from testbed.common.errors import UserError
from testbed.common.files.regular_file import open_regular

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TIMES = 100
"""How many times its size a file may unpack to."""
UNJUDGED_BYTES = 64 << 20
"""What any file may unpack to, and any part of it."""
_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 17
UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
"""What reading a damaged file raises."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open the file and decompress it if needed. Raises UserError with the path if it cannot be read."""
    try:
        with opened_raw(path) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; name a file in it") from None
    except (*UNPACKING_ERRORS, OSError) as error:
        raise UserError(f"{path}: cannot be read: {error}; get a new copy") from None


@contextmanager
def opened_raw(path: Path) -> Iterator[io.BufferedReader[Any]]:
    """As :func:`opened`, but raises what the readers raise: OSError and UNPACKING_ERRORS."""
    with open_regular(path) as raw:
        if raw.peek(2)[:2] != _GZIP:
            yield raw
            return
        with io.BufferedReader(_Unpacking(raw, path), _BLOCK) as file:
            yield file


class _Unpacking(io.RawIOBase):
    """The unpacked bytes of a file, as far as they are plausible."""

    def __init__(self, packed: io.BufferedReader, path: Path) -> None:
        self._file, self._packed, self._path = gzip.GzipFile(fileobj=packed), packed, path
        self._unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer) as view, view.cast("B") as bytes_view:
            data = self._file.read1(len(bytes_view))
            bytes_view[: len(data)] = data
        self._unpacked += len(data)
        if self._unpacked > UNJUDGED_BYTES + TIMES * self._packed.tell():
            raise UserError(
                f"{self._path}: unpacks to more than {TIMES} times its size, as no trace does; if it is meant to,"
                " unpack it with gunzip and name the unpacked file"
            )
        return len(data)
