"""Runs of AFL and Sync-FL, round by round: what the figures of their paper are drawn over.

A round of AFL is as many arrivals as devices are in flight; one of Sync-FL ends when all of its devices have come. Both
are in ``rounds.csv``. What the model was worth when a round ended lies between the scores around it, on a straight line
in the logarithm of the loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from testbed.papers.framework.result import Result

FRACTIONS = (0.2, 0.5, 0.9)
AFL, SYNC, FALLING = "afl", "sync-fl", "sync-fl-falling"
"""The last one: Sync-FL with the local rate of AFL, which falls from epoch to epoch."""
TASKS = {"regression": "regression", "svm": "SVM"}
"""Name → as it is written."""
EARLY = 5
"""Rounds that are early ones."""
TARGETS = {"regression": 0.05, "svm": 0.15}
"""Loss that counts as reached. The noise of the regression's data leaves 0.02 at best."""


class Key(NamedTuple):
    """Which of the runs."""

    task: str
    strategy: str
    fraction: float
    """C"""
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task}-{self.strategy}-c{self.fraction:g}-seed{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One run. The first loss is that of the initial model; all else begins with round 1."""

    loss: Sequence[float]
    seconds: Sequence[float]
    """When each round ended."""
    spread: Sequence[float]
    """τ_t = max τ_c − min τ_c"""
    waited: Sequence[float]
    """T_cum = Σ τ_t"""
    proxy: Sequence[float]
    """E_proxy = Σ P·τ"""
    to_target_s: float
    """Seconds until the loss was as low as the target; infinite, if it never was."""
    to_target_j: float
    """Joules of the whole fleet by then."""

    @property
    def rounds(self) -> int:
        return len(self.seconds)

    @property
    def seconds_per_round(self) -> float:
        return self.seconds[-1] / self.rounds

    def until(self, loss: float) -> float:
        """Rounds after which it was as low; infinite, if it never was."""
        return next((number for number, found in enumerate(self.loss) if found <= loss), math.inf)


Tracks = Mapping[Key, Track]


def track(result: Result, target: float) -> Track:
    rounds = result.rows("rounds.csv")
    times, losses = result.curve("loss")
    seconds, spread, waited, proxy = (
        [float(row[column]) for row in rounds]
        for column in ("time_s", "delay_s", "cumulative_delay_s", "energy_proxy_j")
    )
    to_target_s = result.reached(target, "loss", "time_s", lower=True)
    to_target_j = result.reached(target, "loss", "joules", lower=True)
    return Track(
        loss=np.exp(np.interp([0.0, *seconds], times, np.log(losses))).tolist(),
        seconds=seconds,
        spread=spread,
        waited=waited,
        proxy=proxy,
        to_target_s=math.inf if to_target_s is None else to_target_s,
        to_target_j=math.inf if to_target_j is None else to_target_j,
    )


def unrest(track: Track) -> float:
    """How much the loss goes up and down: mean |change of its change| from round to round, of its logarithm, over the
    later half of the rounds. A loss that falls steadily has none, however fast it falls.
    """
    later = np.log(track.loss[len(track.loss) // 2 :])
    return float(np.abs(np.diff(later, 2)).mean()) if len(later) > 2 else 0.0


def straightness(values: Sequence[float]) -> float:
    """R² of the best line through values, over their numbers; 1 is a straight one."""
    if len(values) < 2 or min(values) == max(values):
        return 1.0
    return float(np.corrcoef(np.arange(len(values)), values)[0, 1] ** 2)


def drift(track: Track) -> float:
    """Mean spread of delays in the later half of the rounds, as a multiple of that in the earlier half."""
    half = len(track.spread) // 2
    earlier = fmean(track.spread[:half] or [0.0])
    return fmean(track.spread[half:]) / earlier if earlier else math.inf


def mean_loss(tracks: Sequence[Track]) -> list[float]:
    """By round, of several runs together, as far as all of them go: what the paper's figures 6 and 10 show."""
    return [fmean(losses) for losses in zip(*(track.loss for track in tracks), strict=False)]


def runs_of(tracks: Tracks, task: str, strategy: str, fraction: float) -> list[Track]:
    return [track for key, track in tracks.items() if key[:3] == (task, strategy, fraction)]


def pairs_of(tracks: Tracks, task: str, fraction: float | None = None) -> list[tuple[Track, Track]]:
    """AFL and Sync-FL, at the same C and seed."""
    found = []
    for key, track in tracks.items():
        rival = Key(key.task, SYNC, key.fraction, key.seed)
        if key.task == task and key.strategy == AFL and fraction in (None, key.fraction) and rival in tracks:
            found.append((track, tracks[rival]))
    return found
