"""The state of files: a digest of their paths, sizes and times. Another state means that they must be read again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from testbed.common.errors import UserError


def state_of(files: Iterable[Path], how: object) -> str:
    """Return a digest of the files and of ``how`` they are read. Raises UserError if one is missing.

    The time of the last change of the inode counts, too: no program can set it back.
    """
    running = hashlib.sha256(repr(how).encode())
    for path in files:
        try:
            status = path.stat()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"{path}: cannot be read: {reason}; task paths are relative to the profile") from None
        running.update(os.fsencode(path))
        running.update(f"\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\n".encode())
    return running.hexdigest()
