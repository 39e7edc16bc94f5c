"""Compares the recomputed models with those in the files of a run: final model, checkpoint and summary."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from aggregator.process import checkpoint
from aggregator.process.checkpoint import CHECKPOINT
from aggregator.strategies import STRATEGIES
from testbed.analysis import run_tables
from testbed.common.errors import UserError
from testbed.common.files import statefile
from testbed.common.files.statefile import StateError
from testbed.common.version import __version__
from testbed.profile.schema import Experiment
from testbed.runs.stored_run import StoredRun
from testbed.verification.event_matching import CLOSE
from testbed.verification.verification_result import Departure, DepartureFound
from testbed.wire.messages import Vector

FINAL = "checkpoints/final.safetensors"
_NOT_BY_TRACE = frozenset(("schema", "model_sha256", "fidelity", "host_energy", "replay", "torn_line"))
"""Fields of the summary that need more than the trace, or are compared by themselves."""


def digest(model: Vector) -> str:
    """SHA-256 of the numbers of a model, as the trace has it."""
    return hashlib.sha256(model.tobytes()).hexdigest()


@dataclass(slots=True)
class FinalFiles:
    """The models in the files of a run, and what could not be compared."""

    run: StoredRun
    experiment: Experiment
    notes: list[str] = field(default_factory=list)

    def checkpointed_version(self) -> int | None:
        """The version in the last checkpoint; None if there is no checkpoint of this version of Edgebed."""
        try:
            notes = statefile.notes_of(self.run.path / CHECKPOINT)
            return int(notes["version"]) if notes.get("format") == checkpoint.FORMAT else None
        except (FileNotFoundError, StateError, KeyError, ValueError):
            return None

    def check_checkpoint(self, version: int, model: Vector) -> None:
        """Raise DepartureFound unless the checkpoint has this model as its current one."""
        path = self.run.path / CHECKPOINT
        own = STRATEGIES.find(self.experiment.strategy_name, self.experiment.name, "strategy").__module__
        try:
            statefile.check(path)
            state = checkpoint.read(path, own)
            found: Vector = state["engine"]["register"]["past_models"].model
        except (StateError, KeyError, TypeError, AttributeError) as problem:
            raise _departs(CHECKPOINT, "a complete checkpoint", str(problem)) from None
        if digest(found) != digest(model):
            raise _departs(CHECKPOINT, f"version {version} with SHA-256 {digest(model)}", digest(found))

    def check_summary(self, version: int, model: str) -> None:
        """Raise DepartureFound unless summary.json and the tables follow from the trace.

        ``version`` and ``model``: the number of versions, and the hash of the final model.
        """
        summary = self.run.stored_summary
        if summary is None:
            self.notes.append("there is no summary.json to compare")
            return
        if summary.versions != version:
            raise _departs("summary.json", f"versions {version}", str(summary.versions))
        if summary.model_sha256 is not None and summary.model_sha256 != model:
            raise _departs("summary.json", f"model_sha256 {model}", summary.model_sha256)
        if self.run.meta is None or self.run.meta.edgebed != __version__:
            self.notes.append("another version of Edgebed wrote summary.json: its other figures are not compared")
            return
        expected = self.run.computed_summary
        for name in summary.__struct_fields__:
            computed, stored = getattr(expected, name), getattr(summary, name)
            if name not in _NOT_BY_TRACE and computed != stored:
                raise _departs("summary.json", f"{name} {computed!r}", repr(stored))
        self._check_tables()

    def _check_tables(self) -> None:
        """Raise DepartureFound unless the tables follow from the trace. A table that is not there is not compared."""
        run, totals = self.run, self.run.totals
        tables: dict[str, tuple[Iterable[object], Iterable[object]]] = {
            "metrics.csv": (run.metrics.rows, run_tables.metric_rows(totals)),
            "versions.csv": (run.versions.rows, totals.made.rows),
            "devices.csv": (run.devices.rows, run_tables.device_rows(totals)),
        }
        for name, (stored, computed) in tables.items():
            for number, (row, expected) in enumerate(itertools.zip_longest(stored, computed), 1):
                if row != expected:
                    raise _departs(f"{name}, row {number}", str(expected), str(row))

    def compare_model(self, tensors: Mapping[str, npt.NDArray[Any]], *, exact: bool) -> float | None:
        """Return the largest difference between the final model and these tensors; None if there is no final model.

        Raises DepartureFound if they are not equal bit by bit or, if that is not required, not close to each other.
        """
        try:
            found = self.run.model()
        except UserError:
            if (self.run.path / FINAL).exists():
                raise _departs(FINAL, "a file that can be read", "a damaged one") from None
            self.notes.append(f"there is no {FINAL} to compare")
            return None
        if {name: tensor.shape for name, tensor in found.items()} != {name: t.shape for name, t in tensors.items()}:
            raise _departs(FINAL, f"the tensors {', '.join(tensors)}", ", ".join(found))
        if all(found[name].tobytes() == tensor.tobytes() for name, tensor in tensors.items()):
            return 0.0
        largest = max(_difference(found[name], tensor) for name, tensor in tensors.items())
        scale = max(float(np.abs(tensor).max(initial=0.0)) for tensor in tensors.values())
        if exact or not largest <= CLOSE * max(1.0, scale):
            raise _departs(FINAL, "the recomputed model", f"one that differs by up to {largest:.3g}")
        return largest


def _difference(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    """The largest difference of two arrays; infinity if one of the numbers is not finite."""
    with np.errstate(invalid="ignore"):
        largest = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max(initial=0.0)
    return float(largest) if np.isfinite(largest) else math.inf


def _departs(file: str, expected: str, found: str) -> DepartureFound:
    return DepartureFound(Departure(event=file, expected=expected, found=found))
