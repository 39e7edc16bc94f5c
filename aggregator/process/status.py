"""The status file for the live view. It is small and replaced atomically, so that no reader delays the aggregator."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from aggregator.engine.engine import Engine
from aggregator.engine.tickets import Tally
from aggregator.process.evaluation import EvaluationQueue
from testbed.common.clock import WallClock
from testbed.wire.messages import KILLED, Heartbeat


def write(
    path: Path,
    now: float,
    clock: WallClock,
    engine: Engine,
    evaluation: EvaluationQueue,
    heartbeats: Mapping[str, Heartbeat],
    fleet: Iterable[str],
    problem: str = "",
) -> None:
    """Replace the status file. Raises OSError if it cannot be written."""
    devices = {name: _device(name, engine, heartbeats.get(name)) for name in fleet}
    status = {
        "t": now,
        "dilation": clock.dilation,
        "origin": clock.origin,
        "version": engine.version,
        "scored": evaluation.scored,
        "problem": problem,
        "metrics": evaluation.latest.metrics if evaluation.latest is not None else {},
        "tally": {
            name: getattr(engine.tally, name) + getattr(engine.head_ledgers.tally, name) for name in Tally.__slots__
        },
        "devices": devices,
    }
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(status), encoding="utf-8")
    os.replace(draft, path)


def _device(name: str, engine: Engine, heartbeat: Heartbeat | None) -> list[object]:
    """Return state, base version, drops and progress of a device."""
    base = engine.base_of(name)
    state = heartbeat.state if heartbeat is not None else "idle"
    if not engine.is_present(name) or state == KILLED:  # shown at once, although the strategy may not know it yet
        state = "gone"
    elif state == "idle" and base is not None:
        state = "dispatched"  # its download is under way, or was lost
    progress = heartbeat.progress if heartbeat is not None and state == "training" else None
    return [state, base, heartbeat.drops if heartbeat is not None else 0, progress]
