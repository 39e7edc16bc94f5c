"""Opening of files that a user names: only regular files, and no more of them than fits into memory.

A device such as /dev/zero has no end, a pipe may never have a beginning, and both can stand where a file is expected.
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from testbed.common.errors import UserError

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading. Raises OSError, and UserError if it is neither a file nor a folder."""
    # without O_NONBLOCK, a pipe would block until somebody writes to it; for a file it has no meaning
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no file")
    raise UserError(f"{path}: is {kind}, and only regular files are read; copy its content to a file, and name that")


def read_at_most(path: Path, most: int) -> bytes:
    """Return the content of a file. Raises OSError, and UserError if it is no regular file or has more bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)  # it allocates so much, whatever the file has
    if len(content) > most:
        raise UserError(f"{path}: has more than {most >> 20} MiB; it is not such a file: name another")
    return content
