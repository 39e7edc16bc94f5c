"""Checks before an interrupted run is resumed from its checkpoint, and before any of its processes starts.

A checkpoint stores length and hash of the trace at its moment. Later events belong to a model that is lost: they are
moved to another file (``testbed.history.rollback``), and the run continues from the checkpoint as if they had not
happened. The checkpoint also stores the profile: the state of a strategy and of a fleet means nothing under another.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from aggregator.course.ending import INTERRUPTED, TIME_IS_OVER, UNWRITABLE
from aggregator.process.checkpoint import Saved, check_content, saved
from testbed.common.errors import NotARun, UnreadableFile, UserError
from testbed.common.parameters import as_table
from testbed.history.rollback import TRACE
from testbed.loading import profile_loader
from testbed.profile.schema import Experiment
from testbed.runs.results.result_files import read_struct

_MOMENT = 1e-3
_CHANGEABLE = ("stop.seconds", "dilation", "aggregator.patience")
"""Keys in the run folder's profile that may differ from those of the checkpoint.

Options of ``resume`` set the first two, and no decision depends on the last one.
"""
_MOST_STOPPED = 4 << 20
"""Bytes of the last event, which names devices that did not answer."""


class _Calibration(msgspec.Struct, frozen=True):
    """The one field of the survey that is needed here."""

    data_sha256: str = ""


class _Origin(msgspec.Struct):
    """The fields of meta.json that are needed here."""

    profile: str | None = None
    calibration: _Calibration | None = None


class _Stopped(msgspec.Struct, tag="stopped", tag_field="kind"):
    """The one field of the last event that is needed here."""

    reason: str


def check_folder(folder: Path) -> None:
    """Raise NotARun if this is not a run folder."""
    if not folder.is_dir():
        raise NotARun(f"{folder}: there is no such folder; runs are in runs/, or in the folder of --out")
    if not (folder / "profile.toml").is_file():
        raise NotARun(f"{folder}: is not a run folder; name one, such as runs/NAME-YYYYmmdd-HHMMSS")


def check_clock(folder: Path) -> None:
    """Raise UserError for a run on a virtual clock: it takes seconds, and has no checkpoints."""
    try:
        profile = tomllib.loads((folder / "profile.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # it is read again, by who says what is wrong with it
    if profile.get("clock") == "virtual":
        raise UserError(f"{folder}: was computed on a virtual clock and has no checkpoints; run its profile again")


def checked(folder: Path) -> Saved:
    """Return the checkpoint of a run. Raises UserError if it or the trace before it is damaged."""
    found = saved(folder)
    check_content(folder, found)
    return found


def check_profile(folder: Path, experiment: Experiment, of: Saved) -> None:
    """Raise UserError if this is not the experiment of the checkpoint: of the two, only the latter has a state."""
    table = tomllib.loads(of.profile)
    # built by the same loader: a key that this version has added gets the same default in both
    began = profile_loader.load_table(table, [], source=str(of.path), folder=folder, name=folder.name)
    before, now = (dict(_values(as_table(each))) for each in (began, experiment))
    differing = [key for key in before | now if before.get(key) != now.get(key) and key not in _CHANGEABLE]
    if differing:
        key, others = differing[0], len(differing) - 1
        more = f" (and {others} more)" if others else ""
        was, given = (f"{each[key]!r:.80}" if key in each else "unset" for each in (before, now))
        raise UserError(
            f"{folder / 'profile.toml'}: {key} is {given}, but was {was} when the run began{more}; a run resumes with"
            " its own profile, and only --seconds and --dilation may change it: undo the edit, or start a new run with"
            " this profile"
        )


def _values(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each key of nested tables and lists, such as ``devices[0].count``, with its value."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _values(each, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        yield f"the number of {key}", len(value)
        for number, each in enumerate(value):
            yield from _values(each, f"{key}[{number}]")
    else:
        yield key, value


def check_data(folder: Path, experiment: Experiment, then: str, now: str) -> None:
    """Raise UserError if the samples of the task are not those of the run. ``then``, ``now``: their SHA-256."""
    if then and now != then:
        named = (experiment.task_parameters.get(key) for key in ("file", "folder"))
        place = next((f" ({each})" for each in named if each), "")
        raise UserError(
            f"{folder}: the data of task {experiment.task_name}{place} has changed since the run began (SHA-256"
            f" {then[:16]}… then, {now[:16] or 'unknown'}… now): restore it from a copy, or start a new run"
        )


def data_digest_of(folder: Path) -> str:
    """Return the SHA-256 of the samples of a run; empty if it is not known."""
    try:
        meta = read_struct(folder / "meta.json", _Origin)
    except UnreadableFile:
        return ""
    return "" if meta is None or meta.calibration is None else meta.calibration.data_sha256


def check(folder: Path, experiment: Experiment, of: Saved) -> None:
    """Raise UserError if the run has ended and a resumption would have nothing to do.

    The trace of an interrupted run ends with that reason, or with none. A strict replay with compressed updates is not
    resumed either: it would not repeat its recording.
    """
    if experiment.replay.trace is not None and experiment.replay.mode == "strict" and experiment.compresses_updates:
        raise UserError(
            f"{folder}: is a strict replay with compress_updates; its devices have lost their residuals, so it could"
            " not repeat the recorded run: start the replay again"
        )
    seconds, reason = experiment.stop.seconds, _ended(folder, of)
    if reason is None or not reason.endswith(TIME_IS_OVER):
        _check_moment(folder, seconds, of)
    if reason is None or reason == INTERRUPTED or reason.startswith(UNWRITABLE):
        return
    if not reason.endswith(TIME_IS_OVER):
        raise UserError(f"{folder}: this run has ended ({reason}); there is nothing left to do")
    if seconds is None or seconds <= of.at + _MOMENT:
        raise UserError(f"{folder}: this run has ended ({reason}); a larger --seconds S extends it")


def _check_moment(folder: Path, seconds: float | None, of: Saved) -> None:
    if seconds is not None and seconds < of.at:
        raise UserError(f"{folder}: this run has already reached {of.at:.1f} s; --seconds must be above that")


def is_possible(folder: Path, experiment: Experiment) -> bool:
    try:
        check(folder, experiment, saved(folder))
    except UserError:
        return False
    return True


def source(folder: Path) -> Path:
    """The profile that the run was started with: a user's own strategy or task may be in the same folder."""
    try:
        meta = read_struct(folder / "meta.json", _Origin)
    except UnreadableFile:
        meta = None
    return folder / "profile.toml" if meta is None or meta.profile is None else Path(meta.profile)


def _ended(folder: Path, of: Saved) -> str | None:
    """Why the run ended; None if it was interrupted before it could record a reason."""
    with (folder / TRACE).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(of.trace.bytes, size - _MOST_STOPPED))
        lines = file.read().splitlines()
    try:
        return msgspec.json.decode(lines[-1], type=_Stopped).reason if lines else None
    except msgspec.MsgspecError:
        return None  # another event, or torn: the run was killed
