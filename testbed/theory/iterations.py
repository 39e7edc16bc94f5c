"""The iterations and delays of a run in the model of Hao et al.: a pure function of its trace.

Hao, Cui, Yang, Wu, Feng, Hu: The Impact Analysis of Delays in Asynchronous Federated Learning with Data Heterogeneity
for Edge Intelligence. 2025, equation (1).

Symbols
    t, T        an iteration, and their number; iteration t makes version t, out of w^t
    w^t         the model that iteration t begins with: version t − 1, since the paper counts from w^1
    N           devices that ever joined
    I_t         devices whose updates are used in iteration t for the first time
    τ_i(t)      delay of device i

Delays
    τ_i(1) = 0: all devices have w^1                                (1)
    τ_i(t) = 0 if i ∈ I_{t−1}, else τ_i(t−1) + 1                    (1)
    τ_i(t) = t − s if i ∈ I_t and its update is based on w^s        (1), the adjustment

Departures
    None from (1), which is applied literally. The delay of a device that is never heard, joins late or has left grows
    with every iteration. The adjustment corrects the iteration in which an update is used and none before it: between a
    failed download and that update, (1) assumes a smaller delay than the real one.
    A device with several updates in one iteration counts once, with the freshest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from testbed.history import trace
from testbed.history.event_pass import Handlers, pass_events
from testbed.history.trace import Event, TraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """One device: its samples, the number of iterations in which it was heard, and τ_i(1) … τ_i(T)."""

    samples: int
    heard: int
    tau: tuple[int, ...]

    def moment(self, power: int) -> float:
        """Return E[τ_i(t)^power], the mean over all iterations."""
        return float(sum(tau**power for tau in self.tau)) / len(self.tau)


@dataclass(frozen=True, slots=True, kw_only=True)
class Iterations:
    """All devices that ever joined, and |I_1| … |I_T|."""

    devices: Mapping[str, Delays]
    heard: tuple[int, ...]


def iterations(events: Iterable[Event]) -> Iterations:
    """Return the iterations of a trace. Raises TraceError if a version uses a ticket that was never dispatched."""
    counter = IterationCounter()
    pass_events(events, counter)
    return counter.iterations()


class IterationCounter:
    """A checker that counts the iterations of a trace.

    A handler raises TraceError if a version uses a ticket that was never dispatched.
    """

    def __init__(self) -> None:
        self._samples: dict[str, int] = {}
        self._owner: dict[int, str] = {}
        self._base: dict[int, int] = {}
        self._used: set[int] = set()
        self._heard: list[dict[str, int]] = []

    def handlers(self) -> Handlers:
        return {
            trace.Joined: self._joined,
            trace.Dispatched: self._dispatched,
            trace.Arrived: self._arrived,
            trace.Aggregated: self._aggregated,
        }

    def iterations(self) -> Iterations:
        """Return the iterations, after all events have passed."""
        devices = {
            name: _delays(count, [bases.get(name) for bases in self._heard]) for name, count in self._samples.items()
        }
        return Iterations(devices=devices, heard=tuple(map(len, self._heard)))

    def _joined(self, event: trace.Joined) -> None:
        self._samples[event.device] = event.samples

    def _dispatched(self, event: trace.Dispatched) -> None:
        self._owner[event.ticket], self._base[event.ticket] = event.device, event.version

    def _arrived(self, event: trace.Arrived) -> None:
        # the version that the device trained on, which may differ from the one sent last
        self._base[event.ticket] = event.version

    def _aggregated(self, event: trace.Aggregated) -> None:
        # a ticket that is used again is nothing new: its device was not heard
        fresh = [ticket for ticket in event.tickets if ticket not in self._used]
        self._used.update(fresh)
        self._heard.append(_bases(event.version, fresh, self._owner, self._base))


def _bases(version: int, tickets: Sequence[int], owner: Mapping[int, str], base: Mapping[int, int]) -> dict[str, int]:
    """Return I_t, with the version on which each device's freshest update is based."""
    bases: dict[str, int] = {}
    for ticket in tickets:
        if ticket not in owner:
            raise TraceError(f"version {version} uses ticket {ticket}, which was never dispatched")
        device = owner[ticket]
        bases[device] = max(base[ticket], bases.get(device, 0))
    return bases


def _delays(samples: int, bases: Sequence[int | None]) -> Delays:
    """``bases``: the base with which the device was heard in each iteration, or None."""
    tau, following = [], 0
    for t, base in enumerate(bases, 1):
        tau.append(following if base is None else t - (base + 1))  # (1): version b is w^{b+1}
        following = tau[-1] + 1 if base is None else 0  # (1)
    return Delays(samples=samples, heard=sum(base is not None for base in bases), tau=tuple(tau))
