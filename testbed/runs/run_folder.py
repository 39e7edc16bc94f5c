"""The run folder: ``runs/<name>-<YYYYmmdd-HHMMSS>/`` and the files in it."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import importlib.metadata
import io
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import tomli_w

from testbed import fidelity
from testbed.analysis import metrics, round_metrics, run_tables
from testbed.analysis.totals import Totals, totals
from testbed.common.errors import UserError
from testbed.common.parameters import as_table
from testbed.common.version import __version__
from testbed.history import trace
from testbed.history.trace import Event, TraceError
from testbed.host import kernel
from testbed.host.cores import CorePlan
from testbed.host.rapl import HostEnergy
from testbed.planning.planner import Plan
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment, Replay
from testbed.replay import replay_certificate
from testbed.runs.tensorboard import FOLDER as TENSORBOARD
from testbed.runs.tensorboard import write as write_tensorboard

_RESULTS = (
    "metrics.csv",
    "versions.csv",
    "devices.csv",
    "rounds.csv",
    "fidelity.json",
    "summary.json",
    "replay.json",
    "report.html",
)
_PACKAGES = ("torch", "numpy", "pyzmq", "msgpack", "msgspec", "psutil", "rich", "safetensors")


class RunFolder:
    """Creates and fills the folder of one run."""

    def __init__(self, path: Path, made: Sequence[Path] = ()) -> None:
        """``made`` are parent folders that were created for it. Raises UserError if a run is under way in it."""
        self.path, self._made = path, made
        self.unwritten: dict[str, str] = {}
        """File → why it could not be written. A file is complete or absent."""
        self._lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the kernel when this process ends
        except BlockingIOError:
            os.close(self._lock)
            raise UserError(f"{path}: this run is under way; wait for its end, or stop it with Ctrl-C") from None

    @classmethod
    def new(cls, out: Path, name: str, now: datetime) -> RunFolder:
        """Create the folder of a new run. Raises UserError if ``out`` is not writable."""
        made = [folder for folder in (out, *out.parents) if not folder.exists()]
        try:
            out.mkdir(parents=True, exist_ok=True)
            path = _make_new(out, f"{name}-{now:%Y%m%d-%H%M%S}")
            (path / "logs").mkdir()
            return cls(path, made)
        except OSError as error:
            raise UserError(f"--out {out}: cannot be written to: {error.strerror}; choose another folder") from None

    @property
    def trace(self) -> Path:
        return self.path / "trace.jsonl"

    def remove(self) -> None:
        """Remove the folder, because the run did not begin."""
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(OSError):  # another run may use the parent folder by now
            for folder in self._made:
                folder.rmdir()

    def forget_results(self) -> None:
        """Remove the results that a resumed run will replace: if it is killed, they must not look like its own."""
        for name in _RESULTS:
            (self.path / name).unlink(missing_ok=True)

    def write_profile(self, experiment: Experiment) -> None:
        """Write profile.toml, before any process starts. Raises UserError if that fails."""
        self._write("profile.toml", tomli_w.dumps(as_table(experiment)))
        if self.unwritten:
            why = self.unwritten["profile.toml"]
            raise UserError(
                f"--out {self.path.parent}: cannot be written to: {why}; free some space, or choose another folder"
            )

    def write_meta(
        self, experiment: Experiment, cores: CorePlan, plan: Plan, pids: Mapping[str, int], source: Path
    ) -> None:
        """Write meta.json; ``source`` is the profile that the run was started with."""
        meta = {
            "edgebed": __version__,
            "python": platform.python_version(),
            "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
            "host": {
                "system": platform.platform(),
                "processor": kernel.processor(),
                "cores": os.cpu_count(),
                "memory_bytes": psutil.virtual_memory().total,
            },
            "profile": str(source.resolve()),
            "seed": experiment.seed,
            "data_seed": experiment.data_seed,
            "model_seed": experiment.model_seed,
            "core_plan": {"aggregator": cores.aggregator, "evaluator": cores.evaluator, "devices": cores.devices},
            "dilation": plan.dilation,
            "demand": {str(core.core): core.total for core in plan.cores},
            "quotas": {step.device.name: step.quota for step in plan.steps if step.device.throttle != "pace"},
            "calibration": msgspec.to_builtins(plan.survey, str_keys=True),
            "pids": {"launcher": os.getpid(), **pids},
        }
        self._write_json("meta.json", meta)

    def write_results(
        self,
        devices: Sequence[DeviceSpec],
        replayed: Replay | None = None,
        *,
        target: float | None = None,
        host_energy: HostEnergy | None = None,
        tensorboard: bool = False,
    ) -> dict[str, Any]:
        """Write all files that follow from the trace; returns the summary with the certificates.

        ``target`` is the accuracy that the run should reach, ``host_energy`` what the host's meter measured.
        """
        torn: list[int] = []
        total = totals(self._events(torn.append))
        certificate = fidelity.certify(self._events(), devices).as_table()
        rounds = round_metrics.rows(self._events())
        self._write_tables(total, rounds)
        self._write_json("fidelity.json", certificate)
        if tensorboard:
            with self._noting(TENSORBOARD):
                write_tensorboard(total, self.path / TENSORBOARD)
        summary = metrics.summary(total, target) | {
            "host_energy": None if host_energy is None else msgspec.to_builtins(host_energy),
            "rounds": round_metrics.summary(rounds),
            "fidelity": certificate,
        }
        if replayed is not None and replayed.trace is not None and devices:
            summary["replay"] = _certified(replayed, devices, self._events())
            self._write_json("replay.json", summary["replay"])
        if torn:
            summary["torn_line"] = torn[0]
        self._write_json("summary.json", summary)
        for log in (self.path / "logs").iterdir():
            if log.stat().st_size == 0:
                log.unlink()
        return summary

    def _write_tables(self, total: Totals, rounds: Sequence[Mapping[str, Any]]) -> None:
        scored = run_tables.metric_rows(total)
        self._write_csv("metrics.csv", run_tables.metric_columns(scored), scored)
        self._write_csv("versions.csv", run_tables.VERSION_COLUMNS, run_tables.version_rows(total))
        self._write_csv("devices.csv", run_tables.DEVICE_COLUMNS, run_tables.device_rows(total))
        if rounds:
            self._write_csv("rounds.csv", round_metrics.COLUMNS, rounds)

    def _events(self, torn: Callable[[int], None] = lambda line: None) -> Iterator[Event]:
        return trace.read(self.trace, torn) if self.trace.exists() else iter(())

    def _write_json(self, name: str, table: Mapping[str, Any]) -> None:
        self._write(name, json.dumps(table, indent=2) + "\n")

    def _write_csv(self, name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self._write(name, text.getvalue())

    def _write(self, name: str, text: str) -> None:
        draft = self.path / f"{name}.new"
        with self._noting(name):
            try:
                draft.write_text(text, encoding="utf-8", newline="")
                os.replace(draft, self.path / name)
            finally:
                draft.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Note a file that cannot be written, and continue with the others."""
        try:
            yield
        except OSError as error:
            self.unwritten[name] = error.strerror or str(error)


def _certified(replayed: Replay, devices: Sequence[DeviceSpec], events: Iterator[Event]) -> dict[str, Any]:
    """The replay certificate; if the recording cannot be read any more, only the reason."""
    try:
        return replay_certificate.certify(replayed, [device.name for device in devices], events)
    except (UserError, TraceError) as error:
        return {"trace": replayed.trace, "mode": replayed.mode, "problem": str(error)}


def _make_new(out: Path, stem: str) -> Path:
    """Create a folder with this name and, if it exists, a number: two runs may begin in the same second."""
    for name in (stem, *(f"{stem}-{number}" for number in range(2, 1000))):
        try:
            (out / name).mkdir()
        except FileExistsError:
            continue
        return out / name
    raise FileExistsError(17, "a thousand runs of this name and second exist")
