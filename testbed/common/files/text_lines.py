"""Lines of a text file, with limits: a file without line ends is not read as one line that fills the memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from testbed.common.errors import UserError
from testbed.common.files.compressed import opened

MOST_CHARACTERS = 1 << 20
MOST_LINES = 10_000_000
"""In a trace of a link, 100 days at one row a second, or 20 minutes of packets at 100 Mbit/s."""


def numbered_lines(path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, with its end; the file may be packed. Raises UserError."""
    number = 0
    with opened(path) as file, io.TextIOWrapper(file, encoding=encoding, errors=errors) as text:
        while line := text.readline(MOST_CHARACTERS + 1):
            number += 1
            if len(line) > MOST_CHARACTERS:
                raise UserError(
                    f"{path}, line {number}: has more than {MOST_CHARACTERS:,} characters; this is not a file of lines:"
                    " name another"
                )
            if number > MOST_LINES:
                raise UserError(f"{path}: has more than {MOST_LINES:,} lines; cut it off, or divide it")
            yield number, line
