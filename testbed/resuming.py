"""A run that was interrupted, to be gone on with: where it had come to, and what has to be undone.

A checkpoint knows how long the trace was when it was made. What was appended since happened to a model that is lost:
it is set aside beside the trace, and the run goes on from the moment of the checkpoint as if it had not been.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed import statefile
from testbed.errors import UserError
from testbed.fleet import DeviceSpec
from testbed.profile import Experiment
from testbed.statefile import StateError

CHECKPOINT = "checkpoints/latest.safetensors"
TRACE = "trace.jsonl"
INTERRUPTED, UNWRITABLE, TIME_IS_OVER = "interrupted", "the trace could not be written", "seconds are over"
"""Reasons for the end of a run, or parts of them: such a run can go on."""
_CHUNK = 1 << 20
_MOMENT = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a checkpoint says of itself."""

    path: Path
    at: float
    """Emulated seconds."""
    version: int
    trace_bytes: int


def check_folder(folder: Path) -> None:
    """Raises UserError where no run has begun."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; runs are kept in runs/, or where --out said")
    if not (folder / "profile.toml").is_file():
        raise UserError(f"{folder}: is no run folder; name one, such as runs/NAME-YYYYmmdd-HHMMSS")


def saved(folder: Path) -> Saved:
    """The checkpoint of a run folder. Raises UserError where there is none to go on from."""
    path = folder / CHECKPOINT
    try:
        notes = statefile.notes_of(path)
        found = Saved(
            path=path, at=float(notes["t"]), version=int(notes["version"]), trace_bytes=int(notes["trace_bytes"])
        )
    except FileNotFoundError:
        raise UserError(
            f"{folder}: has no checkpoint; the run was killed before its first (checkpoint.seconds), wanted none, or"
            " has a rule whose state is on the devices (memory = light): run it again"
        ) from None
    except (StateError, KeyError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}; run the experiment again") from None
    size = _unpacked(folder).stat().st_size
    if size < found.trace_bytes:
        raise UserError(f"{folder}/{TRACE}: is shorter than it was at the checkpoint: it is not this run's own")
    return found


def check(folder: Path, experiment: Experiment, of: Saved) -> None:
    """Raises UserError where there is nothing left to do. A run that was interrupted says so, or says nothing."""
    seconds, reason = experiment.stop.seconds, _ended(folder, of)
    if reason is None or not reason.endswith(TIME_IS_OVER):
        _check_moment(folder, seconds, of)
    if reason is None or reason == INTERRUPTED or reason.startswith(UNWRITABLE):
        return
    if not reason.endswith(TIME_IS_OVER):
        raise UserError(f"{folder}: this run has ended ({reason}); there is nothing left to do")
    if seconds is None or seconds <= of.at + _MOMENT:
        raise UserError(f"{folder}: this run has ended ({reason}); a larger --seconds S lets it last longer")


def _check_moment(folder: Path, seconds: float | None, of: Saved) -> None:
    if seconds is not None and seconds < of.at:
        raise UserError(f"{folder}: this run has come to {of.at:.1f} s already; --seconds must be above that")


def is_possible(folder: Path, experiment: Experiment) -> bool:
    try:
        check(folder, experiment, saved(folder))
    except UserError:
        return False
    return True


def source(folder: Path) -> Path:
    """The profile that the run was started with: a user's own rule or task may be beside it."""
    try:
        return Path(json.loads((folder / "meta.json").read_text(encoding="utf-8"))["profile"])
    except (FileNotFoundError, KeyError, json.JSONDecodeError):
        return folder / "profile.toml"


def _ended(folder: Path, of: Saved) -> str | None:
    """Why the run ended, if it came to that."""
    last = None
    with (folder / TRACE).open("rb") as file:
        file.seek(of.trace_bytes)
        for line in file:
            last = line
    try:
        table = json.loads(last or b"{}")
    except json.JSONDecodeError:
        return None  # torn: it was killed
    return str(table["reason"]) if table.get("kind") == "stopped" else None


def undo(folder: Path, of: Saved) -> int:
    """Set aside what the trace has of the time after the checkpoint. Gives the number of events that this concerns."""
    trace, aside = folder / TRACE, _new_name(folder)
    with trace.open("rb") as file:
        file.seek(of.trace_bytes)
        with aside.open("wb") as rest:
            shutil.copyfileobj(file, rest, _CHUNK)
    if aside.stat().st_size == 0:
        aside.unlink()
        return 0
    os.truncate(trace, of.trace_bytes)
    with aside.open("rb") as rest:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: rest.read(_CHUNK), b""))


def dead(devices: Iterable[DeviceSpec], at: float) -> frozenset[str]:
    """Whom the script had killed by then, and who is not back yet."""
    found = set()
    for device in devices:
        fates = [event.do for event in device.script if event.do in ("kill", "rejoin") and event.at <= at]
        if fates and fates[-1] == "kill":
            found.add(device.name)
    return frozenset(found)


def _unpacked(folder: Path) -> Path:
    """The trace to go on with; one that was packed when the run was over is unpacked again."""
    trace, packed = folder / TRACE, folder / f"{TRACE}.gz"
    if not trace.exists() and packed.exists():
        draft = folder / f"{TRACE}.part"
        with gzip.open(packed) as file, draft.open("wb") as plain:
            shutil.copyfileobj(file, plain, _CHUNK)
        os.replace(draft, trace)
        packed.unlink()
    if not trace.exists():
        raise UserError(f"{folder}: has no {TRACE} to go on with; run the experiment again")
    return trace


def _new_name(folder: Path) -> Path:
    number = 1
    while (found := folder / f"undone-{number}.jsonl").exists():
        number += 1
    return found
