"""How many devices a round waits for: the synchronous degree K_t, and who controls it.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, section IV.C,
Algorithm 3; the patterns of section V.B and the benchmarks of section V.C.

Symbols
    t, T            round, from 0; how many there are to be
    T_t, T_max      seconds of round t; of all rounds together
    T*(K)           seconds of a round of the first K devices, by Algorithm 2 (``aggregator.strategies.asafl.bandwidth``)
    τ_{n,t−1}       staleness that an update of device n has if it goes into round t: rounds since it was in one    (41)
    q_t             virtual queue: by how much the rounds so far were too long; q_0 = 0
    λ_t             how much staleness counts in round t
    μ               how much it counts against time

Rule
    devices in the order of T_n^rem; S(K) is the first K of them                        Algorithm 3, lines 2 to 4
    K_t = argmin_K  −μ·λ_t·Σ_{n∈S(K)} (τ_{n,t−1} + 1)² + q_t·T*(K)                      (15)
    q_{t+1} = max(q_t + T_t − T_max/T, 0)                                               (14)
    λ_t = 1/(T − t), or 0.95^(T−t−1), 0.7^(T−t−1), t/T                                  section V.D
    greedy: the largest K with T*(K) ≤ T_max − Σ_{x<t} T_x                              section V.C
    myopic: the largest K with T*(K) ≤ (T_max − Σ_{x<t} T_x)/(T − t)                    section V.C

Readings
    Of greedy and myopic the paper says how much time a round may take; K is then the largest that fits. It counts
    rounds from 1 there, and divides by T − t + 1; from 0, the rounds that are left are T − t.
    Ascending and descending go between 1 and 20 and are 10 on average: K_t is the straight line from 1 in the first
    round to 20 in the last one, or back, rounded down. (Rounded to the nearest, the mean would be 10.5.)
    EBA: Algorithm 3 with the latency that equal shares give in place of T*: ``allocate=bandwidth.equal``.

Departures
    K is at least 1: a round without anybody would never end. (9d) allows 0, and the proof of (22) reckons with it.
    K is at most as many as there are.
    Of devices with the same T^rem, and all that are ready have 0, the stalest comes first: by name, some would starve.
    Of degrees that are as good as each other, it is the smallest. Behind T, a run goes on as in its last round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aggregator.strategies.asafl.bandwidth import Allocate, Allocation, Upload, optimal

WEIGHTS: dict[str, Callable[[int, int], float]] = {
    "harmonic": lambda t, rounds: 1 / (rounds - t),
    "slow": lambda t, rounds: float(0.95 ** (rounds - t - 1)),
    "steep": lambda t, rounds: float(0.7 ** (rounds - t - 1)),
    "linear": lambda t, rounds: t / rounds,
}
"""λ_t by name; section V.D, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A device that may be in the round."""

    device: str
    upload: Upload
    staleness: int
    """τ_{n,t−1}: the version now − the version that it trains on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What a degree comes to."""

    devices: tuple[str, ...]
    """S(K), in the order in which they are done."""
    allocation: Allocation
    """In the same order."""
    relieved: int
    """Σ_{n∈S} (τ_{n,t−1} + 1)²: the staleness that the round does away with."""


class Candidates:
    """The degrees among which a round may choose: 1 … ``len``. What one comes to is reckoned when it is asked for."""

    def __init__(self, candidates: Sequence[Candidate], bandwidth: float, allocate: Allocate = optimal) -> None:
        if not candidates:
            raise ValueError("a round without devices")
        self._ordered = sorted(candidates, key=lambda each: (each.upload.remaining, -each.staleness))
        self._bandwidth, self._allocate = bandwidth, allocate

    def __len__(self) -> int:
        return len(self._ordered)

    def at(self, degree: int) -> Option:
        """The first K devices; all of them, if there are fewer."""
        first = self._ordered[: max(1, degree)]
        return Option(
            devices=tuple(each.device for each in first),
            allocation=self._allocate([each.upload for each in first], self._bandwidth),
            relieved=sum((each.staleness + 1) ** 2 for each in first),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundProgress:
    """How far a run has come, as Algorithm 3 counts."""

    round: int = 0
    """t."""
    spent: float = 0.0
    """Σ_{x<t} T_x."""
    queue: float = 0.0
    """q_t."""

    def after(self, seconds: float, budget: Budget) -> RoundProgress:
        """A round has ended that took so long."""
        queue = max(self.queue + seconds - budget.seconds / budget.rounds, 0.0)  # (14)
        return RoundProgress(round=self.round + 1, spent=self.spent + seconds, queue=queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """T rounds in T_max seconds."""

    rounds: int
    seconds: float

    def current(self, progress: RoundProgress) -> int:
        """t, and the last round for those behind it."""
        return min(progress.round, self.rounds - 1)

    def left(self, progress: RoundProgress) -> float:
        """Seconds; less than 0 where too many were spent."""
        return self.seconds - progress.spent


class Control(Protocol):
    """Decides the degree of the next round."""

    def choose(self, options: Candidates, progress: RoundProgress) -> Option: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lyapunov:
    """Drift plus penalty: staleness now against time spent so far (Algorithm 3)."""

    budget: Budget
    mu: float = 10.0
    weighting: str = "harmonic"

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        weight = WEIGHTS[self.weighting](self.budget.current(progress), self.budget.rounds)  # λ_t
        return min(
            (options.at(degree) for degree in range(1, len(options) + 1)),
            key=lambda option: -self.mu * weight * option.relieved + progress.queue * option.allocation.seconds,  # (15)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The same degree in every round."""

    degree: int

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        return options.at(self.degree)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """From one degree in the first round to another in the last: ascending, or descending."""

    rounds: int
    first: int = 1
    last: int = 20

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        """In whole numbers: in binary, 1 + 19·(t/(T − 1)) may be a little less than the whole number that it is."""
        end = max(1, self.rounds - 1)
        return options.at(self.first + (self.last - self.first) * min(progress.round, end) // end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """As many devices as the whole time that is left allows."""

    budget: Budget

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        return _largest(options, self.budget.left(progress))


@dataclass(frozen=True, slots=True, kw_only=True)
class Myopic:
    """As many devices as an equal part of the time that is left allows."""

    budget: Budget

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        rounds_left = self.budget.rounds - self.budget.current(progress)
        return _largest(options, self.budget.left(progress) / rounds_left)


def _largest(options: Candidates, seconds: float) -> Option:
    """The largest degree whose round is over in time, else 1."""
    fitting = (option for degree in range(len(options), 1, -1) if _fits(option := options.at(degree), seconds))
    return next(fitting, options.at(1))


def _fits(option: Option, seconds: float) -> bool:
    return option.allocation.seconds <= seconds
