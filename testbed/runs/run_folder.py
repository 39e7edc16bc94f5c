"""The run folder: ``runs/<name>-<YYYYmmdd-HHMMSS>/`` and the files in it."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO

import msgspec
import psutil
import tomli_w

from testbed.common.errors import UserError
from testbed.common.json_text import json_text
from testbed.common.parameters import as_table
from testbed.common.version import __version__
from testbed.host import kernel
from testbed.host.survey import Survey
from testbed.planning.planner import Plan
from testbed.profile.schema import Experiment
from testbed.runs.results.columns import Row
from testbed.runs.results.result_files import write_csv
from testbed.runs.results.run_meta import HostFacts, Meta
from testbed.runs.results.table_rows import DeviceRow, MetricRow, RoundRow, VersionRow
from testbed.runs.run_results import RunResults
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
_PACKAGES = ("torch", "numpy", "scikit-learn", "pyzmq", "msgpack", "msgspec", "psutil", "rich", "safetensors")


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

    def release(self) -> None:
        """Let others write to the folder: the run has ended."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

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

    def write_meta(self, experiment: Experiment, plan: Plan, pids: Mapping[str, int], source: Path | None) -> None:
        """Write meta.json; ``source`` is the profile that the run was started with, if that is a file."""
        self._write_json(
            "meta.json",
            msgspec.structs.replace(
                _meta_of(experiment, plan.survey, source),
                core_plan=plan.core_plan,
                dilation=plan.dilation,
                demand={str(core.core): core.total for core in plan.cores},
                quotas={step.device.name: step.quota for step in plan.steps if step.device.throttle != "pace"},
                pids={"launcher": os.getpid(), **pids},
            ),
        )

    def write_virtual_meta(self, experiment: Experiment, survey: Survey, source: Path | None) -> None:
        """Write meta.json of a run on a virtual clock: one process, and no plan of cores."""
        meta = _meta_of(experiment, survey, source)
        self._write_json("meta.json", msgspec.structs.replace(meta, dilation=1.0, pids={"launcher": os.getpid()}))

    def write_results(self, results: RunResults, *, tensorboard: bool = False) -> None:
        """Write all files that follow from the trace, with event files for TensorBoard if they are wanted."""
        summary, rounds = results.summary, results.scanned.rounds
        self._write_rows("metrics.csv", MetricRow, results.metrics)
        self._write_rows("versions.csv", VersionRow, results.versions)
        self._write_rows("devices.csv", DeviceRow, results.devices)
        if rounds:
            self._write_rows("rounds.csv", RoundRow, rounds)
        if summary.fidelity is not None:
            self._write_json("fidelity.json", summary.fidelity)
        if summary.replay is not None:
            self._write_json("replay.json", summary.replay)
        if tensorboard:
            with self._noting(TENSORBOARD):
                write_tensorboard(results, self.path / TENSORBOARD)
        self._write_json("summary.json", summary)
        for log in (self.path / "logs").iterdir():
            if log.stat().st_size == 0:
                log.unlink()

    def _write_json(self, name: str, value: msgspec.Struct) -> None:
        self._write(name, json_text(value) + "\n")

    def _write_rows(self, name: str, kind: type[Row], rows: Iterable[Row]) -> None:
        self._write_by(name, lambda file: write_csv(file, kind, rows))

    def _write(self, name: str, text: str) -> None:
        self._write_by(name, lambda file: file.write(text))

    def _write_by(self, name: str, write: Callable[[TextIO], object]) -> None:
        draft = self.path / f"{name}.new"
        with self._noting(name):
            try:
                with draft.open("w", encoding="utf-8", newline="") as file:
                    write(file)
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


def _meta_of(experiment: Experiment, survey: Survey, source: Path | None) -> Meta:
    return Meta(
        edgebed=__version__,
        python=platform.python_version(),
        packages={name: importlib.metadata.version(name) for name in _PACKAGES},
        host=HostFacts(
            system=platform.platform(),
            processor=kernel.processor(),
            cores=os.cpu_count(),
            memory_bytes=psutil.virtual_memory().total,
        ),
        profile=None if source is None else _as_text(source.resolve()),
        seed=experiment.seed,
        data_seed=experiment.data_seed,
        model_seed=experiment.model_seed,
        clock=experiment.clock,
        calibration=survey,
    )


def _as_text(path: Path) -> str | None:
    """Return a path as JSON can contain it; None if it is not UTF-8."""
    try:
        return str(path).encode().decode()
    except UnicodeEncodeError:
        return None


def _make_new(out: Path, stem: str) -> Path:
    """Create a folder with this name and, if it exists, a number: two runs may begin in the same second."""
    for name in (stem, *(f"{stem}-{number}" for number in range(2, 1000))):
        try:
            (out / name).mkdir()
        except FileExistsError:
            continue
        return out / name
    raise FileExistsError(17, "a thousand runs of this name and second exist")
