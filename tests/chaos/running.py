"""Runs the command line with attacks from start to end, and collects what was observed."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from testbed.history import trace
from tests.chaos import plan
from tests.chaos.adversary import Adversary, DoneAttack, members
from tests.chaos.garbage import Garbage
from tests.chaos.meter import Meter
from tests.chaos.plan import Settings
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, Run, started

_TICK_SECONDS = 0.02
_SAMPLE_SECONDS, _DEVICES_AT_ONCE = 0.5, 4
_PATIENCE = 60.0
"""Host seconds that a run may take longer: for its start, its last score and its results."""

Progress = Callable[[str], None]


class Overdue(AssertionError):
    """The run does not end by itself."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A run that has ended, and the attacks on it."""

    settings: Settings
    outcome: Outcome
    origin: float
    done: list[DoneAttack]
    evaluators_killed: int
    missed: int
    garbage: Counter[str]
    meter: Meter
    seconds: float
    """Host seconds from time zero to the end of its last process."""
    leftovers: str
    """What the run left behind; empty if nothing."""
    interrupted: bool


def carry_out(settings: Settings, folder: Path, progress: Progress = lambda text: None) -> Seen:
    """Run an experiment with attacks, with results in ``folder``. Ctrl-C ends the run cleanly."""
    path = folder / f"{plan.NAME}.toml"
    path.write_text(tomli_w.dumps(plan.profile(settings)), encoding="utf-8")
    leftovers, watched = "", None
    try:
        with nothing_left_over(), started(path, "--no-admission", "--quiet", own_templates=True) as run:
            watched = _watch(run, settings, progress)
    except AssertionError as problem:
        if watched is None:
            raise
        leftovers = str(problem)
    return Seen(settings=settings, leftovers=leftovers, **watched)


def _watch(run: Run, settings: Settings, progress: Progress) -> dict[str, Any]:
    origin = float(run.wait_for(_status, "its status")["origin"])
    run.wait_until_traced("arrived")
    log = run.folder / "trace.jsonl"
    size = next(event.bytes for event in trace.read(log) if isinstance(event, trace.Arrived)) // 4
    [hub] = Path(os.environ["TMPDIR"]).glob("edgebed-*/hub")
    garbage = Garbage(f"ipc://{hub}", size, log, random.Random(f"{settings.seed} garbage"))
    adversary, meter = Adversary(run, plan.attacks(settings), garbage, origin), Meter()
    interrupted = False
    try:
        _attack(run, settings, adversary, meter, origin, progress)
    except KeyboardInterrupt:
        interrupted = True
        run.process.send_signal(signal.SIGINT)
    finally:
        adversary.end()
        garbage.close()
    outcome = run.finish()
    return {
        "outcome": outcome,
        "origin": origin,
        "done": adversary.done,
        "evaluators_killed": adversary.evaluators_killed,
        "missed": adversary.missed,
        "garbage": garbage.sent,
        "meter": meter,
        "interrupted": interrupted,
        "seconds": time.monotonic() - origin,
    }


def _attack(
    run: Run, settings: Settings, adversary: Adversary, meter: Meter, origin: float, progress: Progress
) -> None:
    """Attack and measure until the run ends."""
    names, sample_at = itertools.cycle(plan.names(settings)), 0.0
    while run.process.poll() is None:
        now = time.monotonic()
        if now - origin > settings.seconds + _PATIENCE:
            raise Overdue(f"the run should have ended {now - origin - settings.seconds:.0f} s ago")
        adversary.act()
        if now >= sample_at:
            sample_at = now + _SAMPLE_SECONDS
            status, there = _status(), members(run)
            updates = int(status["tally"]["applied"]) if status else 0
            if status and "aggregator" in there:
                meter.sample_aggregator(there["aggregator"], updates)
            for name in itertools.islice(names, _DEVICES_AT_ONCE):
                if name in there:
                    meter.sample_device(there[name], now)
            kills = sum(done.attack.do == "kill" for done in adversary.done)
            progress(
                f"{now - origin:5.0f} s, {updates} updates, {kills} kills, {len(adversary.done) - kills} freezes,"
                f" {adversary.missed} missed"
            )
        try:
            run.process.wait(_TICK_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def _status() -> dict[str, Any]:
    files = list(Path(os.environ["TMPDIR"]).glob("edgebed-*/status.json"))
    try:
        status: dict[str, Any] = json.loads(files[0].read_text(encoding="utf-8")) if files else {}
    except FileNotFoundError:  # the run has just ended
        return {}
    return status
