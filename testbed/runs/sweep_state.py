"""``sweep.json``: the plan of a sweep and the state of each of its runs; complete on the disk at every moment."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from testbed.common.errors import UserError
from testbed.common.files.regular_file import read_at_most

NAME = "sweep.json"
SCHEMA = 1
WAITING, RUNNING, DONE, FAILED, INTERRUPTED = "waiting", "running", "done", "failed", "interrupted"
_ASIDE = "unfinished"
_MOST_BYTES = 64 << 20


class SweepCell(msgspec.Struct, kw_only=True):
    """One run of a sweep."""

    name: str
    """Also the name of its folder."""
    words: list[str]
    digest: str
    seconds: float | None
    """Host seconds that it should take, by its profile."""
    state: str = WAITING
    run: str = ""
    """Its run folder, relative to the sweep's."""
    took: float | None = None
    """Host seconds, from its start to its end."""
    problem: str = ""


class Sweep(msgspec.Struct, kw_only=True):
    schema: int = SCHEMA
    command: list[str]
    """The command that began the sweep."""
    cells: list[SweepCell]


class SweepStore:
    """The folder of a sweep that is under way."""

    def __init__(self, folder: Path, sweep: Sweep) -> None:
        self.folder, self.cells, self._sweep = folder, sweep.cells, sweep

    def save(self) -> None:
        """Replace sweep.json as a whole: a reader finds the old state or the new one, never half of one."""
        part = self.folder / f"{NAME}.part"
        with part.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(self._sweep), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.folder / NAME)

    def is_finished(self, cell: SweepCell) -> bool:
        return cell.state == DONE and _has_trace(self.folder / cell.run)

    def set_aside(self, cell: SweepCell) -> Path | None:
        """Move what an earlier attempt at this run left to another folder; returns that, or None if nothing is left."""
        place = self.folder / cell.name
        if not place.exists():
            return None
        aside = self.folder / _ASIDE
        aside.mkdir(exist_ok=True)
        names = (f"{cell.name}-{number}" for number in range(1, 10_000))
        target = next(aside / name for name in names if not (aside / name).exists())
        os.replace(place, target)
        return target


@contextlib.contextmanager
def opened(folder: Path, cells: Sequence[SweepCell], command: Sequence[str]) -> Iterator[SweepStore]:
    """Begin a new sweep, or continue the same one. Raises UserError if the folder contains another sweep."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written to: {error.strerror}; choose another folder") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the kernel when this process ends
        except OSError:
            raise UserError(f"--out {folder}: a sweep is running there; wait for its end, or choose another") from None
        store = SweepStore(folder, _continued(folder, cells) or Sweep(command=list(command), cells=list(cells)))
        store.save()
        yield store
    finally:
        os.close(lock)


def finished_runs(folder: Path) -> list[Path]:
    """Folders of the finished runs of a sweep, in the order of its plan."""
    store = SweepStore(folder, _read(folder / NAME))
    return [folder / cell.run for cell in store.cells if store.is_finished(cell)]


def known(folder: Path, cells: Sequence[SweepCell]) -> list[SweepCell]:
    """The runs of a plan with their states in this folder, which is not changed."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"--out {folder}: cannot be written to: {there} is a file; choose another folder")
    stored = _continued(folder, cells)
    return list(cells) if stored is None else stored.cells


def _continued(folder: Path, cells: Sequence[SweepCell]) -> Sweep | None:
    """The stored sweep, with the words of the new command; None if there is none. Raises UserError for another plan."""
    if not (folder / NAME).exists():
        return None
    stored, new = _read(folder / NAME), {cell.name: cell for cell in cells}
    other = _another({cell.name: cell for cell in stored.cells}, new)
    if other is not None:
        raise UserError(
            f"--out {folder}: contains another sweep: {other}; choose another folder, or repeat its own command"
            f" ({shlex.join(stored.command)})"
        )
    for cell in stored.cells:
        cell.words = new[cell.name].words
    return stored


def _another(stored: Mapping[str, SweepCell], new: Mapping[str, SweepCell]) -> str | None:
    """A difference between a plan and the stored one, without regard to order; None if there is none."""
    for name in (*stored, *new):
        if name not in new:
            return f"{name} is not in this plan"
        if name not in stored:
            return f"it has no {name}"
        if new[name].digest != stored[name].digest:
            return f"the experiment of {name} is not the same; a profile or a setting has changed"
    return None


def _read(path: Path) -> Sweep:
    try:
        sweep = msgspec.json.decode(read_at_most(path, _MOST_BYTES), type=Sweep)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(f"{path}: cannot be read: {error}; choose another folder") from None
    if sweep.schema != SCHEMA:
        raise UserError(f"{path}: schema {sweep.schema}; this version reads {SCHEMA}: choose another folder")
    return sweep


def _has_trace(run: Path) -> bool:
    return any(run.glob("trace.jsonl*"))
