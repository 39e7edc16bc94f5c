"""A run that was interrupted, to be gone on with: where it had come to, and what has to be undone.

A checkpoint knows how long the trace was when it was made. What was appended since happened to a model that is lost:
it is set aside beside the trace, and the run goes on from the moment of the checkpoint as if it had not been.
"""

from __future__ import annotations

import json
from pathlib import Path

from aggregator.process.checkpoint import Saved, saved
from aggregator.process.ending import INTERRUPTED, TIME_IS_OVER, UNWRITABLE
from testbed.common.errors import UserError
from testbed.history.rollback import TRACE
from testbed.profile.schema import Experiment

_MOMENT = 1e-3


def check_folder(folder: Path) -> None:
    """Raises UserError where no run has begun."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; runs are kept in runs/, or where --out said")
    if not (folder / "profile.toml").is_file():
        raise UserError(f"{folder}: is no run folder; name one, such as runs/NAME-YYYYmmdd-HHMMSS")


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
