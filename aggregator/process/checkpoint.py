"""Checkpoints: all that a run goes on from, in one file that is replaced as a whole.

The state is taken down between two messages, in a moment, and written by a thread meanwhile: models and updates are
never written to again, so only sums in the making are copied. The trace is not part of it: a checkpoint tells how long
the trace was, and what was appended since is set aside when a run goes on from there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aggregator
from testbed.common import statefile
from testbed.common.errors import UserError
from testbed.common.statefile import StateError
from testbed.history.rollback import TRACE, unpacked
from testbed.profile import schema
from testbed.profile.schema import Checkpoint
from testbed.wire import messages

CHECKPOINT = "checkpoints/latest.safetensors"
FORMAT = "2"
"""Changes when the classes of a run's state move or change: an older checkpoint is refused."""
MODULES = (aggregator.__name__, messages.__name__, schema.__name__)
"""Of which objects may be in a checkpoint, beside those of a user's own rule."""
_SHARE = 0.1
"""Writing takes no more than this share of the time: a large model is written less often than was asked for."""


class Checkpoints:
    """Of one run, whose rule is of the module ``own``. ``clock`` tells host seconds, ``sync`` has what there is of the
    trace on the disk.
    """

    def __init__(
        self, run_folder: Path, when: Checkpoint, clock: Callable[[], float], sync: Callable[[], None], own: str
    ) -> None:
        self._path, self._when, self._clock, self._sync = run_folder / CHECKPOINT, when, clock, sync
        self._modules = (*MODULES, own)
        self._taken_at, self._version = 0.0, 0
        self._not_before = 0.0
        """Host seconds."""
        self._thread: threading.Thread | None = None
        self._problem = ""

    def is_due(self, now: float, version: int) -> bool:
        if self._when.never or self._writes or version == self._version:
            return False
        if self._clock() < self._not_before:
            return False
        seconds, versions = self._when.seconds, self._when.versions
        by_time = seconds is not None and now - self._taken_at >= seconds
        return by_time or (versions is not None and version - self._version >= versions)

    def begin_from(self, now: float, version: int) -> None:
        """The next one is due so much later than this."""
        self._taken_at, self._version = now, version

    def take(self, now: float, version: int, trace_bytes: int, state: Mapping[str, Any]) -> None:
        """Take the state down, and have it written."""
        self.begin_from(now, version)
        try:
            draft = statefile.draft(state, self._modules)
        except StateError as problem:
            self._report(f"no checkpoint was made: {problem}")
            return
        notes = {"format": FORMAT, "t": repr(now), "version": str(version), "trace_bytes": str(trace_bytes)}
        self._thread = threading.Thread(target=self._write, args=(draft, notes), name="checkpoint")
        self._thread.start()

    def take_last(self, now: float, version: int, trace_bytes: int, state: Callable[[], Mapping[str, Any]]) -> None:
        """The run is over: whatever the schedule says, and wait until it is written."""
        self.wait()
        if not self._when.never:
            self.take(now, version, trace_bytes, state())
            self.wait()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    @property
    def _writes(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _write(self, draft: statefile.Draft, notes: Mapping[str, str]) -> None:
        began = self._clock()
        try:
            self._sync()
            draft.write(self._path, notes)
        except (OSError, StateError) as error:
            self._report(f"a checkpoint cannot be written: {error}; it is tried again when the next one is due")
        took = self._clock() - began
        self._not_before = began + took / _SHARE

    def _report(self, problem: str) -> None:
        """Each once: a disk that is full stays full for a while, and a log on it would not help."""
        if problem != self._problem:
            print(problem, file=sys.stderr, flush=True)
        self._problem = problem


def read(path: Path, own: str) -> Any:
    """The state in a checkpoint. ``own``: the module of the rule."""
    return statefile.read(path, (*MODULES, own))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a checkpoint says of itself."""

    path: Path
    at: float
    """Emulated seconds."""
    version: int
    trace_bytes: int


def saved(folder: Path) -> Saved:
    """The checkpoint of a run folder. Raises UserError where there is none to go on from."""
    path = folder / CHECKPOINT
    try:
        notes = statefile.notes_of(path)
        if notes.get("format") != FORMAT:
            raise UserError(
                f"{folder}: its checkpoint was made by another version of Edgebed, and only that version can resume it;"
                " run the experiment again"
            )
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
    size = unpacked(folder).stat().st_size
    if size < found.trace_bytes:
        raise UserError(f"{folder}/{TRACE}: is shorter than it was at the checkpoint: it is not this run's own")
    return found
