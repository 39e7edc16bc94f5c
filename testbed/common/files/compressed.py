"""Reading of files that may be compressed by gzip; the first bytes decide, not the file name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from testbed.common.errors import UserError

_GZIP = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open the file and decompress it if needed. Raises UserError with the path if it cannot be read."""
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(2) == _GZIP
            raw.seek(0)
            with gzip.open(raw) if is_gzip else raw as file:
                yield file  # type: ignore[misc]  # both are files of bytes
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; name a file in it") from None
    except (EOFError, zlib.error, OSError) as error:
        raise UserError(f"{path}: cannot be read: {error}; get a new copy") from None
