"""The status file for the live view. It is small and replaced atomically, so that no reader delays the aggregator."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from aggregator.course.evaluation import EvaluationQueue
from aggregator.engine.engine import Engine
from aggregator.engine.tickets import Tally
from testbed.common.clock import WallClock
from testbed.wire.messages import KILLED, Heartbeat


class DeviceStatus(msgspec.Struct, frozen=True, array_like=True):
    """The status of one device; an array in the file."""

    state: str
    base: int | None
    """The version that it trains on; None if it is idle or gone."""
    drops: int
    """Transfers that it has lost."""
    progress: float | None
    """The part of its job that is done, from 0 to 1; None if it is not training."""


class Problems:
    """Problems that the user should solve while the run goes on."""

    def __init__(self) -> None:
        self.now, self.last, self.begun = "", "", 0

    def note(self, problem: str) -> None:
        """Take note of the present problem; empty if there is none."""
        if problem and not self.now:
            self.last, self.begun = problem, self.begun + 1
        self.now = problem

    def warn(self, text: str) -> None:
        """Report something that has happened and does not end."""
        self.last, self.begun = text, self.begun + 1


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a run at one moment."""

    t: float
    """Emulated seconds since the beginning."""
    dilation: float
    origin: float
    """Where the clock of the run begins; see ``WallClock``."""
    version: int
    scored: int
    """The last version with a score; -1 if none has one."""
    problem: str
    """A problem that the user should solve while the run goes on; empty if there is none."""
    problems: int
    """How many problems have begun so far."""
    last_problem: str
    """The one that began last, solved or not: a reader may come too late for a short one."""
    metrics: dict[str, float]
    """The latest scores."""
    tally: Tally
    """Tickets of the aggregator and of cluster heads."""
    devices: dict[str, DeviceStatus]


def write(
    path: Path,
    now: float,
    clock: WallClock,
    engine: Engine,
    evaluation: EvaluationQueue,
    heartbeats: Mapping[str, Heartbeat],
    fleet: Iterable[str],
    problems: Problems,
) -> None:
    """Replace the status file. Raises OSError if it cannot be written."""
    status = Status(
        t=now,
        dilation=clock.dilation,
        origin=clock.origin,
        version=engine.version,
        scored=evaluation.scored,
        problem=problems.now,
        problems=problems.begun,
        last_problem=problems.last,
        metrics=evaluation.latest.metrics if evaluation.latest is not None else {},
        tally=_tally(engine),
        devices={name: _device(name, engine, heartbeats.get(name)) for name in fleet},
    )
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(status))
    os.replace(draft, path)


def read(path: Path) -> Status | None:
    """Return the status in the file; None if there is no such file, or if it does not contain a status."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Status)
    except (OSError, ValueError):  # ValueError: also of text that is not UTF-8
        return None


def _tally(engine: Engine) -> Tally:
    own, heads = engine.tally, engine.head_ledgers.tally
    return Tally(**{name: getattr(own, name) + getattr(heads, name) for name in Tally.__slots__})


def _device(name: str, engine: Engine, heartbeat: Heartbeat | None) -> DeviceStatus:
    base = engine.base_of(name)
    state = heartbeat.state if heartbeat is not None else "idle"
    if not engine.is_present(name) or state == KILLED:  # shown at once, although the strategy may not know it yet
        state = "gone"
    elif state == "idle" and base is not None:
        state = "dispatched"  # its download is under way, or was lost
    return DeviceStatus(
        state=state,
        base=base,
        drops=heartbeat.drops if heartbeat is not None else 0,
        progress=heartbeat.progress if heartbeat is not None and state == "training" else None,
    )
