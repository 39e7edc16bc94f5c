"""``python -m tests.chaos fuzz``: frames that are none, by the hundred thousand, to everybody who reads frames.

Nothing but a refusal may come of them: what else is raised, what hangs, and books that do not balance afterwards are
escapes. Each is told with the frames that did it, and a seed finds it again.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.chaos import forged, targets
from tests.chaos.targets import Fed, Target
from tests.chaos.verdict import Line

TARGETS: dict[str, tuple[Target, float]] = {
    "decoder": (targets.decoder, 0.5),
    "peers": (targets.peers, 0.2),
    "aggregator": (targets.aggregator, 0.1),
    "device": (forged.device, 0.1),
    "head": (forged.head, 0.04),
    "member": (forged.member, 0.04),
    "evaluator": (forged.evaluator, 0.01),
    "canary": (forged.singer, 0.01),
}
"""Who reads, and which share of the frames."""
_TOLD_EVERY = 500
_MOST_ESCAPES = 10
_STUCK_SECONDS = 60
"""A target that has not taken its next frame by then hangs."""


class Stuck(AssertionError):
    """A frame was not done with in time."""


@dataclass(frozen=True, kw_only=True)
class Escape:
    problem: str
    frames: list[str]
    """Hexadecimal, of the last that was read; long ones cut off."""


@dataclass(kw_only=True)
class Result:
    target: str
    frames: int = 0
    seconds: float = 0.0
    read: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    escapes: list[Escape] = field(default_factory=list)
    grown: int = 0
    """Bytes by which the peak of this process's memory rose meanwhile."""


def fuzz(name: str, frames: int, seed: int, seen: Callable[[int], None] = lambda count: None) -> Result:
    """Give a target so many frames. After an escape it begins anew, with the dice as they are."""
    target, result, dice = TARGETS[name][0], Result(target=name), random.Random(f"{seed} {name}")
    before, began = _peak(), time.monotonic()
    while result.frames < frames and len(result.escapes) < _MOST_ESCAPES:
        fed = Fed(seen=lambda count, done=result.frames: seen(done + count))
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings(), _watched(fed):
            warnings.simplefilter("ignore", RuntimeWarning)  # models of any size overflow; a run goes on
            try:
                result.mutations.update(target(dice, frames - result.frames, fed, Path(folder)))
            except Exception as error:  # noqa: BLE001  this is what is looked for
                shown = [frame[:400].hex() for frame in fed.last]
                result.escapes.append(Escape(problem=_told(error), frames=shown))
        result.frames, result.read = result.frames + fed.frames, result.read + fed.read
        for reason, count in fed.refused.items():
            result.refused[_kind(reason)] += count
    result.seconds, result.grown = time.monotonic() - began, _peak() - before
    return result


def everybody(frames: int, seed: int, progress: Callable[[str], None]) -> list[Result]:
    """Each target, with its share of the frames."""
    shares = {name: max(1, round(share * frames)) for name, (_, share) in TARGETS.items()}
    with _quiet():
        return [
            fuzz(name, count, seed, partial(_told_of, progress, f"{name}, of {count:,}"))
            for name, count in shares.items()
        ]


def _told_of(progress: Callable[[str], None], what: str, done: int) -> None:
    if done % _TOLD_EVERY == 0:
        progress(f"{what}: {done:,}")


def lines(results: list[Result]) -> list[Line]:
    found = []
    for each in results:
        problems = "; ".join(sorted({escape.problem for escape in each.escapes}))
        found += [
            Line(
                what=f"{each.target}: escapes",
                bound="0",
                holds=not each.escapes,
                measured=f"{len(each.escapes)} of {each.frames:,} frames" + (f": {problems}" if problems else ""),
            ),
            Line(
                what=f"{each.target}: read, refused",
                measured=f"{each.read:,}, {each.refused.total():,}; {each.frames / each.seconds:,.0f} frames a second",
            ),
        ]
    reasons: Counter[str] = Counter()
    for each in results:
        reasons.update(each.refused)
    told = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common(8))
    found.append(Line(what="refused by reason", measured=f"{told}, and {max(0, len(reasons) - 8)} others"))
    grown = sum(each.grown for each in results) / (1 << 20)
    found.append(
        Line(what="peak memory", measured=f"+{grown:.0f} MiB over all targets, {_peak() / (1 << 20):.0f} in all")
    )
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Devices note in their log what they pass over: that is a hundred thousand lines."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def _told(error: Exception) -> str:
    trail = error.__traceback__
    while trail is not None and trail.tb_next is not None:
        trail = trail.tb_next
    place = f"{Path(trail.tb_frame.f_code.co_filename).name}:{trail.tb_lineno}" if trail is not None else "?"
    return f"{type(error).__name__}: {error} ({place})"[:300]


def _kind(reason: str) -> str:
    """Reasons that differ in figures and places only are one."""
    return re.sub(r"\d+", "N", re.sub(r" - at `.*|`[^`]*`", "…", reason))[:60]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def _watched(fed: Fed) -> Iterator[None]:
    """Fail if no frame was taken for too long; only where signals can be heard, in the main thread."""
    taken = -1

    def look(*_: object) -> None:
        nonlocal taken
        if fed.frames == taken:
            raise Stuck(f"nothing was read for {_STUCK_SECONDS} s")
        taken = fed.frames

    old = signal.signal(signal.SIGALRM, look)
    others = signal.setitimer(signal.ITIMER_REAL, _STUCK_SECONDS, _STUCK_SECONDS)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, old)
        signal.setitimer(signal.ITIMER_REAL, *others)  # whoever watches over tests
