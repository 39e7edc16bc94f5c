"""Checks before an interrupted run is resumed from its checkpoint.

A checkpoint stores the length of the trace at its moment. Later events belong to a model that is lost: they are moved
to another file (``testbed.history.rollback``), and the run continues from the checkpoint as if they had not happened.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from aggregator.process.checkpoint import Saved, saved
from aggregator.process.ending import INTERRUPTED, TIME_IS_OVER, UNWRITABLE
from testbed.common.errors import NotARun, UnreadableFile, UserError
from testbed.history.rollback import TRACE
from testbed.profile.schema import Experiment
from testbed.runs.results.result_files import read_struct

_MOMENT = 1e-3


class _Origin(msgspec.Struct):
    """The one field of meta.json that is needed here."""

    profile: str | None = None


def check_folder(folder: Path) -> None:
    """Raise NotARun if this is not a run folder."""
    if not folder.is_dir():
        raise NotARun(f"{folder}: there is no such folder; runs are in runs/, or in the folder of --out")
    if not (folder / "profile.toml").is_file():
        raise NotARun(f"{folder}: is not a run folder; name one, such as runs/NAME-YYYYmmdd-HHMMSS")


def check(folder: Path, experiment: Experiment, of: Saved) -> None:
    """Raise UserError if the run has ended and a resumption would have nothing to do.

    The trace of an interrupted run ends with that reason, or with none.
    """
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
    last = None
    with (folder / TRACE).open("rb") as file:
        file.seek(of.trace_bytes)
        for line in file:
            last = line
    try:
        table = json.loads(last or b"{}")
    except json.JSONDecodeError:
        return None  # torn: the run was killed
    return str(table["reason"]) if table.get("kind") == "stopped" else None
