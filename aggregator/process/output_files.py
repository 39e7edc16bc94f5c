"""The status file and the final model: files that the aggregator writes besides the trace and the checkpoints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import save_file

from aggregator.engine.engine import Engine
from testbed.learning.training.task import Task


class Unwritten(Exception):
    """The run is over, and one of its files could not be written."""


class OutputFiles:
    """Writes files, and keeps which ones could not be written."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder
        self._unwritten: dict[str, str] = {}
        """File → why it could not be written."""
        self._status_failed = False

    def note_unwritten(self, name: str, why: str) -> None:
        """Note that a file could not be written. The first reason counts."""
        self._unwritten.setdefault(name, why)

    def replace_reason(self, name: str, why: str) -> None:
        """Note that a file could not be written, with a better reason than any before."""
        self._unwritten[name] = why

    def check(self) -> None:
        """Raises Unwritten if a file could not be written."""
        if self._unwritten:
            raise Unwritten("; ".join(f"{name} could not be written: {why}" for name, why in self._unwritten.items()))

    def write_status(self, write: Callable[[], None]) -> None:
        """Call ``write``. If it fails, the run goes on; the first failure is printed."""
        try:
            write()
        except OSError as error:
            with contextlib.suppress(OSError):
                if not self._status_failed:
                    print(f"{error.filename} cannot be written: {error.strerror}", file=sys.stderr, flush=True)
            self._status_failed = True

    def save_model(self, engine: Engine, task: Task) -> None:
        """Write the current model as the final one."""
        folder = self._folder / "checkpoints"
        draft, version = folder / "final.new", {"version": str(engine.version)}
        try:
            folder.mkdir(exist_ok=True)
            save_file(task.tensors(engine.model), draft, metadata=version)
            os.replace(draft, folder / "final.safetensors")
        except (OSError, SafetensorError) as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            self.note_unwritten("checkpoints/final.safetensors", str(error))
