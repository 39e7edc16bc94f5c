"""Which files a process has read, and whether one of them has changed since."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

_SYSTEM = ("/proc/", "/sys/", "/dev/")


class FileMarks(msgspec.Struct, frozen=True):
    """Path → time of the last change (ns) and size. Paths are bytes: they need not be UTF-8."""

    marks: dict[bytes, tuple[int, int]]

    def are_unchanged(self) -> bool:
        return all(_mark(os.fsdecode(path)) == mark for path, mark in self.marks.items())


class OpenedFiles:
    """Notes the files that Python code opens for reading, and the modules that were imported since it was made.

    An audit hook sees them, which cannot be removed: make one in a process. Files that only native code opens are not
    seen. Of a module that is read from its compiled file, the source counts as it was at that moment.
    """

    def __init__(self) -> None:
        self._marks: dict[str, tuple[int, int] | None] = {}
        self._modules_before = set(sys.modules)
        self._is_noting = False
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is opened in this block."""
        self._is_noting = True
        try:
            yield
        finally:
            self._is_noting = False

    def marks(self) -> FileMarks:
        """The files so far, without those that have been removed again."""
        for name in set(sys.modules) - self._modules_before:
            file = getattr(sys.modules[name], "__file__", None)
            if isinstance(file, str):
                self._note(file)
        present = {path: mark for path, mark in self._marks.items() if mark and Path(path).exists()}
        return FileMarks({os.fsencode(path): mark for path, mark in present.items()})

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_noting and event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
            if isinstance(path, str | bytes) and not writes:
                self._note(os.fsdecode(path))
                if os.fsdecode(path).endswith(".pyc"):
                    with contextlib.suppress(ValueError):  # a compiled file elsewhere, without a source
                        self._note(importlib.util.source_from_cache(os.fsdecode(path)))

    def _note(self, path: str) -> None:
        place = str(Path(path).absolute())
        if place not in self._marks and not place.startswith(_SYSTEM):
            self._marks[place] = _mark(place)


def _mark(path: str) -> tuple[int, int] | None:
    """None if it is not a regular file."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None
