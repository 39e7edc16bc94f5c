"""Small trace files in published formats, and helpers to read them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.common.errors import UserError
from testbed.traces.formats import KINDS
from testbed.traces.formats.found_trace import FoundTrace, ImportOptions


def write(path: Path, contents: str | bytes | dict[str, Any]) -> Path:
    """Write a file, compressed if its name ends in .gz."""
    text = json.dumps(contents) if isinstance(contents, dict) else contents
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def found(kind: str, path: Path, **options: Any) -> dict[str, FoundTrace]:
    """Return every entry of a file by its name in --list."""
    return {entry.name: entry.build() for entry in KINDS[kind].read(path, ImportOptions(**options))}


def only(kind: str, path: Path, **options: Any) -> FoundTrace:
    (entry,) = found(kind, path, **options).values()
    return entry


def problem(kind: str, path: Path, **options: Any) -> str:
    """Return the error about a file."""
    with pytest.raises(UserError) as caught:
        found(kind, path, **options)
    return str(caught.value)


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> str:
    """Return the output of a command; for an error, its one line."""
    assert main.main([str(word) for word in words]) == code
    output = capsys.readouterr()
    if code:
        assert output.out == ""
        (line,) = output.err.splitlines()
        return line
    assert output.err == ""
    return output.out
