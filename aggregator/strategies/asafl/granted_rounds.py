"""Rounds over a shared uplink: when a round begins, it is decided which devices upload in it, and at which rates.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024 (ASAFL), section
IV. The mathematics is in ``bandwidth`` (Algorithm 2) and ``synchrony`` (Algorithm 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from aggregator.pacing.collecting import Collecting, idle_devices
from aggregator.pacing.idle_pools import sample
from aggregator.strategies.asafl.bandwidth import Allocate, Upload, equal, optimal, rate
from aggregator.strategies.asafl.grant_orders import GrantRates
from aggregator.strategies.asafl.synchrony import (
    WEIGHTS,
    Budget,
    Candidate,
    Candidates,
    Control,
    Fixed,
    Greedy,
    LinearDegree,
    Lyapunov,
    Myopic,
    RoundProgress,
)
from aggregator.strategy import Decision, Server
from testbed.common.number_limits import LONGEST, SHORTEST
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update

CONTROLS = ("lyapunov", "fixed", "ascending", "descending", "greedy", "myopic", "synchronous")
_ALLOCATE: dict[str, tuple[Allocate, Allocate]] = {
    "optimal": (optimal, optimal),
    "equal": (equal, equal),
    "eba": (optimal, equal),
}
"""Name → the shares that K_t is chosen with, and the shares that are granted."""


@dataclass(kw_only=True)
class GrantedRounds(Collecting):
    """Semi-asynchronous with planned rounds.

    When a round begins, the strategy grants shares of the band to K_t devices, whether they have finished computing or
    not. It makes a version when no further update of the round can arrive. Devices that have finished computing without
    a grant wait for a later round.

    With the synchronous control, K devices are drawn when a round begins. They start on the current model and have
    their grants at once; the others are idle.

    A granted share does not change until the round ends, because an upload under way has a fixed end. The share of a
    device that gives up its upload stays unused until then.
    """

    grants: ClassVar[bool] = True
    own_selection: ClassVar[str] = "selects the devices of each round itself"
    unrepeatable: ClassVar[str] = (
        "its rounds depend on when devices ask for a grant, but a strict replay fixes only the order of updates"
    )

    rounds: int = param(1000, "T: number of rounds that the time budget is for", at_least=1)
    budget: float = param(100.0, "T_max: seconds for all T rounds", at_least=SHORTEST, at_most=LONGEST)
    control: str = param("lyapunov", "how K_t, the number of devices in a round, is chosen", choices=CONTROLS)
    mu: float = param(10.0, "μ of lyapunov: weight of staleness relative to time", at_least=0)
    weighting: str = param(
        "harmonic", "λ_t of lyapunov: 1/(T − t), 0.95^(T − t − 1), 0.7^(T − t − 1), or t/T", choices=tuple(WEIGHTS)
    )
    degree: int = param(10, "K_t with control = fixed or synchronous", at_least=1)
    low: int = param(1, "the smallest K of ascending and descending", at_least=1)
    high: int = param(20, "the largest K of ascending and descending, or the fleet if it is smaller", at_least=1)
    allocation: str = param(
        "optimal",
        "shares of the band: by Algorithm 2, or equal; eba: equal, but K_t is chosen as with Algorithm 2",
        choices=tuple(_ALLOCATE),
    )
    tau_0: int | None = param(
        None,
        "τ_0: devices that are further behind a new version are restarted on it (SAFL-SC); unset: none",
        at_least=0,
    )
    estimate: str = param(
        "updates",
        "how the rest of a device's computing time is estimated: from its profile and last update, or its heartbeats",
        choices=("updates", "beats"),
    )

    _awaited: set[str] = field(default_factory=set, init=False, repr=False)
    """Devices of the current round whose updates can still arrive; empty: there is no round."""
    _opened: float = field(default=0.0, init=False, repr=False)
    """When the round began."""
    _progress: RoundProgress = field(default_factory=RoundProgress, init=False, repr=False)

    def check(self, devices: int) -> None:
        if self.control in ("fixed", "synchronous") and self.degree > devices:
            allowed = f"at most {devices}, the devices of the fleet"
            raise ParameterError("degree", f"is {self.degree}; it must be {allowed}: lower it, or add devices")
        if self.control in ("ascending", "descending") and self.low > min(self.high, devices):
            allowed = f"at most {min(self.high, devices)}, the smaller of high and the fleet"
            raise ParameterError("low", f"is {self.low}; it must be {allowed}: lower it")
        if self.control == "synchronous" and self.tau_0 is not None:
            raise ParameterError(
                "tau_0", "has no effect with control = synchronous, as no device is stale: leave it out"
            )

    @property
    def uses_progress(self) -> bool:
        return self.estimate == "beats"

    def on_start(self, server: Server) -> Decision:
        self._opened = server.now
        return self._aggregate_if_due(server, list(server.devices))

    @property
    def keeps_update_after_rejoin(self) -> bool:
        """Whether a collected update still counts if its device rejoins before the version is made."""
        return True

    def on_join(self, device: str, server: Server) -> Decision:
        kept = self.keeps_update_after_rejoin
        discarded = [] if kept else self._discard_updates(device)
        decision = super().on_join(device, server)
        rejected = {each.ticket: "its device rejoined and starts over" for each in discarded}
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **rejected})

    def on_leave(self, device: str, server: Server) -> Decision:
        self._awaited.discard(device)
        return super().on_leave(device, server)

    def on_ready(self, device: str, server: Server) -> Decision:
        self._awaited.discard(device)
        return super().on_ready(device, server)

    def on_ask(self, device: str, server: Server) -> Decision:
        return self._aggregate_if_due(server, [])

    def on_update(self, update: Update, server: Server) -> Decision:
        self._awaited.discard(update.device)
        replaced = self._collect_latest(update)
        decision = self._aggregate_if_due(server, [])
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **replaced})

    def _aggregate_if_due(self, server: Server, idle: list[str]) -> Decision:
        decision, version = Decision(), server.version
        contributors: list[str] = []
        if self._collected and not self._awaited:
            decision, contributors = self._aggregate(server)
            version += 1
            self._progress = self._progress.after(server.now - self._opened, self._budget)
            self._opened = server.now
        start = self._to_start(server, idle, contributors)
        # if no update was gathered, the round starts over; its time so far counts
        plan = None if self._awaited else self._plan_round(server, version, start)
        train = {device: self.job(device, server) for device in start}
        return msgspec.structs.replace(decision, train=train, orders=() if plan is None else (plan,))

    def _to_start(self, server: Server, waiting: Sequence[str], contributors: Sequence[str]) -> list[str]:
        """Return the devices that are sent the model now. ``contributors``: to the version being made, if any."""
        if self.control == "synchronous":
            return [] if self._awaited else sample(server.devices, self.degree, server.random)
        behind = self._too_stale(server) if contributors else []
        return list(dict.fromkeys([*waiting, *idle_devices(contributors, server), *behind]))

    def _too_stale(self, server: Server) -> list[str]:
        """Return the devices that are restarted on the version being made: busy, and more than τ_0 behind it."""
        if self.tau_0 is None:
            return []
        return [device for device, base in server.busy.items() if server.version + 1 - base > self.tau_0]

    def _plan_round(self, server: Server, version: int, start: list[str]) -> GrantRates | None:
        """Return the grants of the next round. The devices in ``start`` are sent ``version`` now."""
        candidates = self._candidates(server, version, start)
        if not candidates:
            return None
        bandwidth = server.forecast.bandwidth
        planned, granted = _ALLOCATE[self.allocation]
        option = self._control(len(server.known)).choose(Candidates(candidates, bandwidth, planned), self._progress)
        if granted is not planned:
            option = Candidates(candidates, bandwidth, granted).at(len(option.devices))
        self._awaited = set(option.devices)
        uploads = {each.device: each.upload for each in candidates}
        shares = option.allocation.shares
        pairs = list(zip(option.devices, shares, strict=True))
        return GrantRates(
            devices=option.devices,
            shares=shares,
            seconds=option.allocation.seconds,
            rates=tuple(rate(share, bandwidth, uploads[device].snr) for device, share in pairs),
            remaining=tuple(uploads[device].remaining for device in option.devices),
            queue=self._progress.queue,
            spent=self._progress.spent,
            budget=self.budget,
        )

    def _candidates(self, server: Server, version: int, start: Sequence[str]) -> list[Candidate]:
        """Return all devices that compute or wait. Those in ``start`` are not yet busy for the engine."""
        size, forecast = server.model.size, server.forecast
        found = [
            (device, server.remaining(device, by_heartbeats=self.uses_progress), version - base)
            for device, base in server.busy.items()
            if device not in start
        ]
        found += [(device, forecast.seconds(device, self.job(device, server)), 0) for device in start]
        return [
            Candidate(
                device=device,
                staleness=staleness,
                upload=Upload(
                    bits=forecast.upload_bits(device, size), snr=forecast.snr(device, version), remaining=remaining
                ),
            )
            for device, remaining, staleness in found
        ]

    @property
    def _budget(self) -> Budget:
        return Budget(rounds=self.rounds, seconds=self.budget)

    def _control(self, devices: int) -> Control:
        high = min(self.high, devices)
        match self.control:
            case "lyapunov":
                return Lyapunov(budget=self._budget, mu=self.mu, weighting=self.weighting)
            case "fixed" | "synchronous":
                return Fixed(degree=self.degree)
            case "ascending":
                return LinearDegree(rounds=self.rounds, first=self.low, last=high)
            case "descending":
                return LinearDegree(rounds=self.rounds, first=high, last=self.low)
            case "greedy":
                return Greedy(budget=self._budget)
            case _:  # myopic
                return Myopic(budget=self._budget)
