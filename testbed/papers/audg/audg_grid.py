"""The cells of the tables in AUDG's paper: printed and measured values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.papers.framework.result import Result, Results

STRATEGIES = ("audg", "psurdg")
SEEDS = (1, 2, 3)
DELAYS = (1, 3, 5, 7, 9)
"""Mean delay of the first device, in iterations; the others have 1."""
LONG = 3
"""Multiple of the searched η: the signs depend on η, beside delay and data."""
LONG_DELAYS = (1, 5, 9)

TITLES = {"iid": "IID", "small": "Small Non-IID", "large": "Large Non-IID"}
ACCURACY: Mapping[str, Sequence[float]] = {
    "iid": (-0.0325, -0.0219, -0.0153, -0.0373, -0.0418),  # Table III, CNN
    "small": (-0.0021, -0.0077, -0.0196, -0.0223, -0.0251),  # Table X
    "large": (0.0131, 0.0082, 0.0012, -0.0297, -0.0363),  # Table X
}
"""PSURDG − AUDG in final accuracy, by delay."""
LOSS: Mapping[str, Sequence[float]] = {
    "iid": (0.0385, 0.0343, 0.0153, 0.0423, 0.0487),  # Table V
    "small": (0.0205, 0.0237, 0.0512, 0.0590, 0.0691),  # Table VII
    "large": (-0.0131, -0.0098, -0.0026, 0.0520, 0.0672),  # Table IX
}
"""PSURDG − AUDG in final training loss, by delay."""


def phi(delay: int) -> float:
    """Probability that an upload succeeds, for a mean delay in iterations."""
    return 1 / (1 + delay)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """All settings of a run except strategy and seed."""

    setting: str
    delay: int
    """0: no device has one."""
    long: bool = False
    """With ``LONG`` times the searched η."""

    def run_name(self, strategy: str, seed: int) -> str:
        """The name of a run."""
        return f"{self.setting}-delay{self.delay}{'-long' if self.long else ''}-{strategy}-seed{seed}"

    def runs(self, results: Results, strategy: str) -> list[Result]:
        """By seed; empty unless all of them are finished."""
        names = [self.run_name(strategy, seed) for seed in SEEDS]
        return [results[name] for name in names] if all(name in results for name in names) else []

    def values(self, results: Results, strategy: str, metric: str = "accuracy") -> list[float]:
        """Final values, by seed."""
        return [run.final(metric) for run in self.runs(results, strategy)]

    def differences(self, results: Results, metric: str = "accuracy") -> list[float]:
        """PSURDG − AUDG, by seed."""
        audg, psurdg = (self.values(results, strategy, metric) for strategy in STRATEGIES)
        return [other - one for one, other in zip(audg, psurdg, strict=True)] if audg and psurdg else []


def row(setting: str, *, long: bool = False) -> list[GridCell]:
    """One row of a table."""
    return [GridCell(setting=setting, delay=delay, long=long) for delay in (LONG_DELAYS if long else DELAYS)]


def printed(table: Mapping[str, Sequence[float]], cells: Sequence[GridCell]) -> list[float]:
    """The values of the paper in these cells."""
    return [table[cell.setting][DELAYS.index(cell.delay)] for cell in cells]


def tried(eta: float, setting: str, strategy: str) -> str:
    """The name of a run of the search."""
    return f"eta{eta:g}-{setting}-{strategy}"


def decided(values: Sequence[float]) -> int:
    """The sign that all seeds have: 1 or −1; 0 where they differ."""
    if values and all(value > 0 for value in values):
        return 1
    return -1 if values and all(value < 0 for value in values) else 0
