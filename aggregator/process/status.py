"""The state of the run for the live view: a small file, replaced atomically, so that no reader can slow us down."""

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
    beats: Mapping[str, Heartbeat],
    fleet: Iterable[str],
    problem: str = "",
) -> None:
    devices = {}
    for name in fleet:
        beat = beats.get(name)
        base = engine.base_of(name)
        state = beat.state if beat is not None else "idle"
        if not engine.is_present(name) or state == KILLED:  # the rule may not know it yet, a spectator does
            state = "gone"
        elif state == "idle" and base is not None:
            state = "dispatched"  # as far as we know: its download is under way, or was lost
        progress = beat.progress if beat is not None and state == "training" else None
        devices[name] = [state, base, beat.drops if beat is not None else 0, progress]
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
