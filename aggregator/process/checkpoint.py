"""Writes checkpoints (the state of the aggregator in one file, replaced atomically) and reads them back (ADR 19).

The state is copied between two messages, which takes milliseconds, and written by a thread while the run goes on.
Models and updates are never modified, so they are referenced; only arrays that still change, such as running sums, are
copied. The trace is not part of a checkpoint: the checkpoint contains the trace's length and hash, and ``resume`` moves
later events to another file. It also contains the profile of the run and a hash of its own content, so that ``resume``
can check what it resumes. ``Intake.restore`` and ``Engine.restore`` put the state in place.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

import aggregator
from testbed.common.errors import UserError
from testbed.common.files import statefile
from testbed.common.files.statefile import StateError
from testbed.common.parameters import as_table
from testbed.history import events, trace
from testbed.history.rollback import TRACE, unpacked
from testbed.history.trace_mark import TraceMark, mark_of
from testbed.profile import schema
from testbed.profile.schema import Checkpoint, Experiment
from testbed.wire import messages, training_job

CHECKPOINT = "checkpoints/latest.safetensors"
FORMAT = "5"
"""Changes when the classes of a run's state move or change. A checkpoint of another format is refused: those before 4
have no hashes and cannot be checked.
"""
MODULES = (aggregator.__name__, messages.__name__, events.__name__, training_job.__name__, schema.__name__)
"""Modules whose classes a checkpoint may contain, besides the module of a user's own strategy."""
_CHUNK = 1 << 20
_SHARE = 0.1
"""Largest share of the time for writing: checkpoints of a large model are less frequent than configured."""


class Checkpoints:
    """Writes the checkpoints of one run.

    ``when``: if it is not what the experiment says. ``clock`` returns host seconds, ``sync`` brings the trace to the
    disk, ``own`` is the module of the strategy.
    """

    def __init__(
        self,
        run_folder: Path,
        experiment: Experiment,
        clock: Callable[[], float],
        sync: Callable[[], None],
        own: str,
        when: Checkpoint | None = None,
    ) -> None:
        self._path, self._clock, self._sync = run_folder / CHECKPOINT, clock, sync
        self._when = experiment.checkpoint if when is None else when
        self._profile = tomli_w.dumps(as_table(experiment))
        self._modules = (*MODULES, own)
        self._taken_at, self._version = 0.0, 0
        self._not_before = 0.0
        """Host seconds before which no checkpoint is written."""
        self._thread: threading.Thread | None = None
        self._problem = ""

    def is_due(self, now: float, version: int) -> bool:
        if self._when.never or self._is_writing or version == self._version:
            return False
        if self._clock() < self._not_before:
            return False
        seconds, versions = self._when.seconds, self._when.versions
        by_time = seconds is not None and now - self._taken_at >= seconds
        return by_time or (versions is not None and version - self._version >= versions)

    def begin_from(self, now: float, version: int) -> None:
        """Count the time and the versions until the next checkpoint from here."""
        self._taken_at, self._version = now, version

    def take(self, now: float, version: int, mark: TraceMark, state: Mapping[str, Any]) -> None:
        """Copy the state, and write it in a thread. ``mark``: that of the trace at this moment."""
        self.begin_from(now, version)
        try:
            draft = statefile.draft(state, self._modules)
        except StateError as problem:
            self._report(f"no checkpoint was made: {problem}")
            return
        notes = {
            "format": FORMAT,
            "t": repr(now),
            "version": str(version),
            "trace_bytes": str(mark.bytes),
            "trace_sha256": mark.sha256,
            "profile": self._profile,
        }
        self._thread = threading.Thread(target=self._write, args=(draft, notes), name="checkpoint")
        self._thread.start()

    def take_last(self, now: float, version: int, mark: TraceMark, state: Callable[[], Mapping[str, Any]]) -> None:
        """Take the last checkpoint of a run, unless checkpoints are disabled. ``wait`` until it is written."""
        self.wait()
        if not self._when.never:
            self.take(now, version, mark, state())

    def wait(self) -> None:
        """Wait until a checkpoint that was taken is written."""
        if self._thread is not None:
            self._thread.join()

    @property
    def _is_writing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _write(self, draft: statefile.Draft, notes: Mapping[str, str]) -> None:
        began = self._clock()
        try:
            self._sync()
            draft.write(self._path, notes)
        except (OSError, StateError) as error:
            self._report(f"a checkpoint cannot be written: {error}; the next one is tried when it is due")
        took = self._clock() - began
        self._not_before = began + took / _SHARE

    def _report(self, problem: str) -> None:
        """Print a problem unless it is the same as the last one: a full disk may stay full for a long time."""
        if problem != self._problem:
            print(problem, file=sys.stderr, flush=True)
        self._problem = problem


def read(path: Path, own: str) -> Any:
    """Return the state in a checkpoint. ``own`` is the module of the strategy. Raises StateError."""
    return statefile.read(path, (*MODULES, own))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The notes of a checkpoint file."""

    path: Path
    at: float
    """Emulated time of the checkpoint."""
    version: int
    trace: TraceMark
    profile: str
    """The profile of the run as TOML, as it was at the checkpoint."""


def saved(folder: Path) -> Saved:
    """Return the notes of a run's checkpoint. Raises UserError if there is none that a run can continue from."""
    path = folder / CHECKPOINT
    try:
        notes = statefile.notes_of(path)
        if notes.get("format") != FORMAT:
            raise UserError(
                f"{folder}: its checkpoint was made by another version of Edgebed and cannot be checked by this one;"
                " resume it with that version, or run the experiment again"
            )
        found = Saved(
            path=path,
            at=float(notes["t"]),
            version=int(notes["version"]),
            trace=TraceMark(bytes=int(notes["trace_bytes"]), sha256=notes["trace_sha256"]),
            profile=notes["profile"],
        )
    except FileNotFoundError:
        raise UserError(
            f"{folder}: has no checkpoint; the run was killed before the first one (checkpoint.seconds), wrote none"
            " (checkpoint.never), or its strategy keeps state on the devices (memory = light): run it again"
        ) from None
    except (StateError, KeyError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}; run the experiment again") from None
    size = unpacked(folder).stat().st_size
    if size < found.trace.bytes:
        raise UserError(f"{folder}/{TRACE}: is shorter than at the checkpoint; run the experiment again")
    return found


def check_content(folder: Path, of: Saved) -> None:
    """Raise UserError if the checkpoint, or the trace before it, is not as it was written.

    What follows in the trace is not checked: it will be undone.
    """
    remedy = "restore it from a copy, or run the experiment again"
    try:
        statefile.check(of.path)
    except StateError as error:
        raise UserError(f"{error}; {remedy}") from None
    path = folder / TRACE
    if mark_of(path, of.trace.bytes) != of.trace:
        raise UserError(f"{_damage(path, of.trace.bytes)}; {remedy}")


def _damage(path: Path, size: int) -> str:
    """Say where a trace is damaged: the line is known if it is not an event any more."""
    with path.open("rb") as file:
        chunks = (file.read(min(_CHUNK, size - at)) for at in range(0, size, _CHUNK))
        lines = sum(chunk.count(b"\n") for chunk in chunks)
    try:
        for _ in itertools.islice(trace.read(path), lines):
            continue
    except trace.TraceError as error:
        return f"{error}: this line has changed since the checkpoint"
    return f"{path}: has changed since the checkpoint, in one of its first {lines:,} lines"
