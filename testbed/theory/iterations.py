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
    samples: dict[str, int] = {}
    owner: dict[int, str] = {}
    base: dict[int, int] = {}
    used: set[int] = set()
    heard: list[dict[str, int]] = []
    for event in events:
        match event:
            case trace.Joined():
                samples[event.device] = event.samples
            case trace.Dispatched():
                owner[event.ticket], base[event.ticket] = event.device, event.version
            case trace.Arrived():
                # the version that the device trained on, which may differ from the one sent last
                base[event.ticket] = event.version
            case trace.Aggregated():
                # a ticket that is used again is nothing new: its device was not heard
                fresh = [ticket for ticket in event.tickets if ticket not in used]
                used.update(fresh)
                heard.append(_bases(event.version, fresh, owner, base))
            case _:
                pass
    devices = {name: _delays(count, [bases.get(name) for bases in heard]) for name, count in samples.items()}
    return Iterations(devices=devices, heard=tuple(map(len, heard)))


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
