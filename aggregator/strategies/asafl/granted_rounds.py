"""Rounds over a shared uplink: who uploads in the next one, and how fast, is decided when it begins.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024 (ASAFL), section
IV. The mathematics is in ``bandwidth`` (Algorithm 2) and ``synchrony`` (Algorithm 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from aggregator.pacing.every_few import Collecting, idle_devices
from aggregator.strategies.asafl.bandwidth import Allocate, Upload, equal, optimal, rate
from aggregator.strategies.asafl.grant_orders import GrantRates
from aggregator.strategies.asafl.synchrony import (
    WEIGHTS,
    Budget,
    Candidate,
    Candidates,
    Control,
    CostLine,
    Fixed,
    Greedy,
    Lyapunov,
    Myopic,
    RoundProgress,
)
from aggregator.strategy import Decision, Server
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update

CONTROLS = ("lyapunov", "fixed", "ascending", "descending", "greedy", "myopic")
_ALLOCATE: dict[str, Allocate] = {"optimal": optimal, "equal": equal}


@dataclass(kw_only=True)
class Granting(Collecting):
    """Semi-asynchronous with planned rounds: K_t devices are granted a part of the band at once, ready or not; a
    version is made when the last of them that can still come has come. Others that are done wait for a later round.

    A share that is granted stays as it is until the round ends: an upload under way has said when it is due. What a
    device leaves unused that gives up is idle until then.
    """

    grants: ClassVar[bool] = True
    unrepeatable: ClassVar[str] = "it reckons with the moments at which devices ask for a grant, which are no updates"

    rounds: int = param(1000, "T: rounds that the time budget is for", at_least=1)
    budget: float = param(100.0, "T_max: seconds for all of them", above=0)
    control: str = param("lyapunov", "who decides K_t, the devices of a round", choices=CONTROLS)
    mu: float = param(10.0, "μ of lyapunov: how much staleness counts against time", at_least=0)
    weighting: str = param(
        "harmonic", "λ_t of lyapunov: 1/(T − t), 0.95^(T − t − 1), 0.7^(T − t − 1), or t/T", choices=tuple(WEIGHTS)
    )
    degree: int = param(10, "K of fixed", at_least=1)
    low: int = param(1, "the smallest K of ascending and descending", at_least=1)
    high: int = param(20, "the largest K of ascending and descending; or all devices, if they are fewer", at_least=1)
    allocation: str = param("optimal", "shares of the band: by Algorithm 2, or equal (EBA)", choices=tuple(_ALLOCATE))
    tau_0: int | None = param(
        None,
        "τ_0: devices that are further behind a new version are restarted on it (SAFL-SC); unset: nobody",
        at_least=0,
    )
    estimate: str = param(
        "updates",
        "how long a device computes yet: by its profile and last update, or by its heartbeats",
        choices=("updates", "beats"),
    )

    _awaited: set[str] = field(default_factory=set, init=False, repr=False)
    """Devices of the round under way that can still come; empty: none is under way."""
    _opened: float = field(default=0.0, init=False, repr=False)
    """When the round began: with the version before it."""
    _progress: RoundProgress = field(default_factory=RoundProgress, init=False, repr=False)

    def check(self, devices: int) -> None:
        if self.control == "fixed" and self.degree > devices:
            allowed = f"at most {devices}, the devices of the fleet"
            raise ParameterError("degree", f"is {self.degree}; it must be {allowed}: lower it, or add devices")
        if self.control in ("ascending", "descending") and self.low > min(self.high, devices):
            allowed = f"at most {min(self.high, devices)}, as high and the fleet are"
            raise ParameterError("low", f"is {self.low}; it must be {allowed}: lower it")

    def on_start(self, server: Server) -> Decision:
        self._opened = server.now
        return self._aggregate_if_due(server, list(server.devices))

    @property
    def outlasts_a_return(self) -> bool:
        """Whether an update that is gathered still counts when its device has come back before the version is made."""
        return True

    def on_join(self, device: str, server: Server) -> Decision:
        undecided = [] if self.outlasts_a_return else [each for each in self._gathered if each.device == device]
        if undecided:
            self._gathered = [each for each in self._gathered if each.device != device]
        decision = super().on_join(device, server)
        rejected = {each.ticket: "its device came back, and begins anew" for each in undecided}
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
        replaced = self._gather_latest(update)
        decision = self._aggregate_if_due(server, [])
        return msgspec.structs.replace(decision, rejected={**decision.rejected, **replaced})

    def _aggregate_if_due(self, server: Server, start: list[str]) -> Decision:
        decision, version, plan = Decision(), server.version, None
        if not self._awaited:
            if self._gathered:
                decision, contributors = self._aggregate(server)
                start, version = [*start, *idle_devices(contributors, server), *self._behind(server)], version + 1
                self._progress = self._progress.after(server.now - self._opened, self._budget)
                self._opened = server.now
            # where nothing was gathered, the round begins anew: the time that it took so far counts
            plan = self._planned(server, version, list(dict.fromkeys(start)))
        train = {device: self.job(device, server) for device in start}
        return msgspec.structs.replace(decision, train=train, orders=() if plan is None else (plan,))

    def _behind(self, server: Server) -> list[str]:
        """Who is restarted on the version that is just being made: busy, and more than τ_0 behind it."""
        if self.tau_0 is None:
            return []
        return [device for device, base in server.busy.items() if server.version + 1 - base > self.tau_0]

    def _planned(self, server: Server, version: int, start: list[str]) -> GrantRates | None:
        """The next round, after ``version``, in which the devices in ``start`` have just been sent it."""
        candidates = self._candidates(server, version, start)
        if not candidates:
            return None
        bandwidth = server.forecast.bandwidth
        option = self._control(len(server.known)).choose(
            Candidates(candidates, bandwidth, _ALLOCATE[self.allocation]), self._progress
        )
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
        """Everybody who computes or waits: of those in ``start`` the engine does not know yet that they do."""
        bits, forecast, by_beats = 8 * server.model.nbytes, server.forecast, self.estimate == "beats"
        found = [
            (device, server.remaining(device, by_beats=by_beats), version - base)
            for device, base in server.busy.items()
            if device not in start
        ]
        found += [(device, forecast.seconds(device, self.job(device, server)), 0) for device in start]
        return [
            Candidate(
                device=device,
                staleness=staleness,
                upload=Upload(bits=bits, snr=forecast.snr(device, version), remaining=remaining),
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
            case "fixed":
                return Fixed(degree=self.degree)
            case "ascending":
                return CostLine(rounds=self.rounds, first=self.low, last=high)
            case "descending":
                return CostLine(rounds=self.rounds, first=high, last=self.low)
            case "greedy":
                return Greedy(budget=self._budget)
            case _:
                return Myopic(budget=self._budget)
