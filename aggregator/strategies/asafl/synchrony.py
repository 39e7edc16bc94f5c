"""How many devices a round waits for: the synchronous degree K_t, and the controls that choose it.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, section IV.C,
Algorithm 3; the patterns of section V.B and the benchmarks of section V.C.

Symbols
    t, T            round, from 0; number of rounds
    T_t, T_max      seconds of round t; of all rounds together
    T*(K)           seconds of a round of the first K devices, by Algorithm 2 (``bandwidth``)
    τ_{n,t−1}       staleness of an update of device n in round t: rounds since its last one                        (41)
    q_t             virtual queue: seconds by which the rounds so far were too long; q_0 = 0
    λ_t             weight of staleness in round t
    μ               weight of staleness against time

Rule
    devices in the order of T_n^rem; S(K) is the first K of them                        Algorithm 3, lines 2 to 4
    K_t = argmin_K  −μ·λ_t·Σ_{n∈S(K)} (τ_{n,t−1} + 1)² + q_t·T*(K)                      (15)
    q_{t+1} = max(q_t + T_t − T_max/T, 0)                                               (14)
    λ_t = 1/(T − t), or 0.95^(T−t−1), 0.7^(T−t−1), t/T                                  section V.D
    greedy: the largest K with T*(K) ≤ T_max − Σ_{x<t} T_x                              section V.C
    myopic: the largest K with T*(K) ≤ (T_max − Σ_{x<t} T_x)/(T − t)                    section V.C

Readings
    For greedy and myopic the paper gives the time that a round may take; K is then the largest that fits. There the
    paper counts rounds from 1 and divides by T − t + 1; counted from 0, T − t rounds are left.
    Ascending and descending go between 1 and 20 with a mean of 10: K_t is the straight line from 1 in the first round
    to 20 in the last one, or back, rounded down. (Rounded to the nearest, the mean would be 10.5.)
    EBA has two readings. ``allocation = "eba"`` is the letter of section V.C: Algorithm 3 chooses K_t with T*, the
    latency of optimal shares, but the granted shares are equal, so that the round takes longer than T*. With
    ``allocation = "equal"``, Algorithm 3 has the latency of equal shares in place of T*.
    Synchronous (section V.A): K devices are drawn at random for each round; the paper does not say how they are chosen.

Departures
    K is at least 1: a round without devices would never end. (9d) allows 0, and the proof of (22) uses that.
    K is at most the number of devices.
    Devices with the same T^rem, such as all that are ready (0), are ordered by staleness, the stalest first: ordered by
    name, some would starve.
    If several degrees are equally good, the smallest is chosen. After T rounds, a run continues as in its last round.
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
    """τ_{n,t−1}: the current version − the version that the device trains on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A possible round: the devices and their shares for one degree."""

    devices: tuple[str, ...]
    """S(K), in the order in which they finish computing."""
    allocation: Allocation
    """In the same order."""
    relieved: int
    """Σ_{n∈S} (τ_{n,t−1} + 1)²: the staleness that the round removes."""


class Candidates:
    """The possible degrees of a round: 1 … ``len``. Each option is computed when :meth:`at` is called."""

    def __init__(self, candidates: Sequence[Candidate], bandwidth: float, allocate: Allocate = optimal) -> None:
        if not candidates:
            raise ValueError("a round without devices")
        self._ordered = sorted(candidates, key=lambda each: (each.upload.remaining, -each.staleness))
        self._bandwidth, self._allocate = bandwidth, allocate

    def __len__(self) -> int:
        return len(self._ordered)

    def at(self, degree: int) -> Option:
        """Return the round of the first ``degree`` devices, at least one; of all devices if there are fewer."""
        first = self._ordered[: max(1, degree)]
        return Option(
            devices=tuple(each.device for each in first),
            allocation=self._allocate([each.upload for each in first], self._bandwidth),
            relieved=sum((each.staleness + 1) ** 2 for each in first),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundProgress:
    """The state of Algorithm 3 after some rounds."""

    round: int = 0
    """t."""
    spent: float = 0.0
    """Σ_{x<t} T_x."""
    queue: float = 0.0
    """q_t."""

    def after(self, seconds: float, budget: Budget) -> RoundProgress:
        """Return the state after one more round, which took ``seconds``."""
        queue = max(self.queue + seconds - budget.seconds / budget.rounds, 0.0)  # (14)
        return RoundProgress(round=self.round + 1, spent=self.spent + seconds, queue=queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """T rounds in T_max seconds."""

    rounds: int
    seconds: float

    def current(self, progress: RoundProgress) -> int:
        """Return t; after T rounds, the last one."""
        return min(progress.round, self.rounds - 1)

    def left(self, progress: RoundProgress) -> float:
        """Return the seconds that are left; negative if the rounds took too long."""
        return self.seconds - progress.spent


class Control(Protocol):
    """Chooses the degree of the next round."""

    def choose(self, options: Candidates, progress: RoundProgress) -> Option: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lyapunov:
    """Drift plus penalty: staleness now against the time spent so far (Algorithm 3)."""

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
class LinearDegree:
    """A straight line from one degree in the first round to another in the last: ascending or descending."""

    rounds: int
    first: int = 1
    last: int = 20

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        """Use integer arithmetic: in binary, 1 + 19·(t/(T − 1)) may be slightly less than an exact integer."""
        end = max(1, self.rounds - 1)
        return options.at(self.first + (self.last - self.first) * min(progress.round, end) // end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """As many devices as fit into all of the time that is left."""

    budget: Budget

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        return _largest(options, self.budget.left(progress))


@dataclass(frozen=True, slots=True, kw_only=True)
class Myopic:
    """As many devices as fit into an equal part of the time that is left."""

    budget: Budget

    def choose(self, options: Candidates, progress: RoundProgress) -> Option:
        rounds_left = self.budget.rounds - self.budget.current(progress)
        return _largest(options, self.budget.left(progress) / rounds_left)


def _largest(options: Candidates, seconds: float) -> Option:
    """Return the option of the largest degree whose round fits into ``seconds``, else of degree 1."""
    fitting = (option for degree in range(len(options), 1, -1) if _fits(option := options.at(degree), seconds))
    return next(fitting, options.at(1))


def _fits(option: Option, seconds: float) -> bool:
    return option.allocation.seconds <= seconds
