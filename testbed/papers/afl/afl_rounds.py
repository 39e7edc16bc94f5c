"""Runs of AFL and Sync-FL, round by round, as in the figures of their paper.

A round of AFL has one arrival for each device in flight; a round of Sync-FL ends when all of its updates have arrived.
Both are in ``rounds.csv``. The loss at the end of a round is interpolated between the neighbouring scores, linearly in
its logarithm.
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
"""``FALLING``: Sync-FL with the local learning rate of AFL, which falls from epoch to epoch."""
TASKS = {"regression": "regression", "svm": "SVM"}
"""Name → title."""
EARLY = 5
"""Number of early rounds."""
TARGETS = {"regression": 0.05, "svm": 0.15}
"""Loss that counts as reached. The noise of the regression's data leaves 0.02 at best."""


class Key(NamedTuple):
    """Identifies a run."""

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
    """One run by rounds. The first loss is that of the initial model; all other lists begin with round 1."""

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
    """Seconds until the loss reached the target; infinite if it never did."""
    to_target_j: float
    """Joules of the whole fleet until then."""

    @property
    def rounds(self) -> int:
        return len(self.seconds)

    @property
    def seconds_per_round(self) -> float:
        return self.seconds[-1] / self.rounds

    def until(self, loss: float) -> float:
        """Rounds until the loss was at most this; infinite if it never was."""
        return next((number for number, found in enumerate(self.loss) if found <= loss), math.inf)


Tracks = Mapping[Key, Track]


def track(result: Result, target: float) -> Track:
    rounds = result.run.rounds
    times, losses = result.curve("loss")
    seconds, spread, waited, proxy = (
        [float(value) for value in rounds[column]]
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


def fluctuation(track: Track) -> float:
    """How much the loss fluctuates: mean |second difference| of its logarithm from round to round, over the later half
    of the rounds. It is 0 for a loss that falls steadily, however fast.
    """
    later = np.log(track.loss[len(track.loss) // 2 :])
    return float(np.abs(np.diff(later, 2)).mean()) if len(later) > 2 else 0.0


def straightness(values: Sequence[float]) -> float:
    """R² of the best line through the values over their indices; 1 is a straight line."""
    if len(values) < 2 or min(values) == max(values):
        return 1.0
    return float(np.corrcoef(np.arange(len(values)), values)[0, 1] ** 2)


def drift(track: Track) -> float:
    """Mean spread of delays in the later half of the rounds, as a multiple of that in the earlier half."""
    half = len(track.spread) // 2
    earlier = fmean(track.spread[:half] or [0.0])
    return fmean(track.spread[half:]) / earlier if earlier else math.inf


def mean_loss(tracks: Sequence[Track]) -> list[float]:
    """Mean loss of several runs by round, as far as all of them go, as in the paper's figures 6 and 10."""
    return [fmean(losses) for losses in zip(*(track.loss for track in tracks), strict=False)]


def runs_of(tracks: Tracks, task: str, strategy: str, fraction: float) -> list[Track]:
    return [track for key, track in tracks.items() if key[:3] == (task, strategy, fraction)]


def pairs_of(tracks: Tracks, task: str, fraction: float | None = None) -> list[tuple[Track, Track]]:
    """Pairs of AFL and Sync-FL at the same C and seed."""
    found = []
    for key, track in tracks.items():
        rival = Key(key.task, SYNC, key.fraction, key.seed)
        if key.task == task and key.strategy == AFL and fraction in (None, key.fraction) and rival in tracks:
            found.append((track, tracks[rival]))
    return found
