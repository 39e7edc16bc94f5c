"""``python -m tests.chaos fuzz``: hundreds of thousands of invalid frames to everything that reads frames.

They may cause refusals and nothing else. An escape is any other exception, a frame that blocks a process, or accounts
that do not balance. Each escape is reported with its frames, and the seed reproduces it.
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
    "canary": (forged.canary_process, 0.01),
}
"""Target → its function, and its share of the frames."""
_SHOWN_EVERY = 500
_MOST_ESCAPES = 10
_STUCK_SECONDS = 60
"""A target that reads no frame for so long is stuck."""


class Stuck(AssertionError):
    """A frame was not handled in time."""


@dataclass(frozen=True, kw_only=True)
class Escape:
    problem: str
    frames: list[str]
    """The last frames that were read, in hexadecimal; long ones are truncated."""


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
    """Bytes by which the peak memory of this process rose."""


def fuzz(name: str, frames: int, seed: int, seen: Callable[[int], None] = lambda count: None) -> Result:
    """Send frames to a target. After an escape it is started again; the random numbers continue."""
    target, result, rng = TARGETS[name][0], Result(target=name), random.Random(f"{seed} {name}")
    before, began = _peak(), time.monotonic()
    while result.frames < frames and len(result.escapes) < _MOST_ESCAPES:
        fed = Fed(seen=lambda count, done=result.frames: seen(done + count))
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings(), _watched(fed):
            warnings.simplefilter("ignore", RuntimeWarning)  # huge numbers overflow; a run continues
            try:
                result.mutations.update(target(rng, frames - result.frames, fed, Path(folder)))
            except Exception as error:  # noqa: BLE001  escapes are what this test looks for
                shown = [frame[:400].hex() for frame in fed.last]
                result.escapes.append(Escape(problem=_text(error), frames=shown))
        result.frames, result.read = result.frames + fed.frames, result.read + fed.read
        for reason, count in fed.refused.items():
            result.refused[_kind(reason)] += count
    result.seconds, result.grown = time.monotonic() - began, _peak() - before
    return result


def all_targets(frames: int, seed: int, progress: Callable[[str], None]) -> list[Result]:
    """Fuzz each target with its share of the frames."""
    shares = {name: max(1, round(share * frames)) for name, (_, share) in TARGETS.items()}
    with _quiet():
        return [
            fuzz(name, count, seed, partial(_show, progress, f"{name}, of {count:,}")) for name, count in shares.items()
        ]


def _show(progress: Callable[[str], None], what: str, done: int) -> None:
    if done % _SHOWN_EVERY == 0:
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
    shown = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common(8))
    found.append(Line(what="refused by reason", measured=f"{shown}, and {max(0, len(reasons) - 8)} others"))
    grown = sum(each.grown for each in results) / (1 << 20)
    found.append(
        Line(what="peak memory", measured=f"+{grown:.0f} MiB over all targets, {_peak() / (1 << 20):.0f} in all")
    )
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Devices log each frame that they ignore: that would be a hundred thousand lines."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def _text(error: Exception) -> str:
    trail = error.__traceback__
    while trail is not None and trail.tb_next is not None:
        trail = trail.tb_next
    place = f"{Path(trail.tb_frame.f_code.co_filename).name}:{trail.tb_lineno}" if trail is not None else "?"
    return f"{type(error).__name__}: {error} ({place})"[:300]


def _kind(reason: str) -> str:
    """The reason without figures and places, so that similar ones count as one."""
    return re.sub(r"\d+", "N", re.sub(r" - at `.*|`[^`]*`|'[^']*'", "…", reason))[:60]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def _watched(fed: Fed) -> Iterator[None]:
    """Fail if no frame is read for too long. Only in the main thread, which receives signals."""
    frames_before = -1

    def look(*_: object) -> None:
        nonlocal frames_before
        if fed.frames == frames_before:
            raise Stuck(f"nothing was read for {_STUCK_SECONDS} s")
        frames_before = fed.frames

    old = signal.signal(signal.SIGALRM, look)
    others = signal.setitimer(signal.ITIMER_REAL, _STUCK_SECONDS, _STUCK_SECONDS)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, old)
        signal.setitimer(signal.ITIMER_REAL, *others)  # the time limit of pytest
