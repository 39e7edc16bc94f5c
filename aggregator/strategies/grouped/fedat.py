"""FedAT: tiers of devices with similar response times, synchronous within a tier, asynchronous between tiers.

Chai, Chen, Anwar, Zhao, Cheng, Rangwala: FedAT: A High-Performance and Communication-Efficient Federated Learning
System with Asynchronous Tiers. SC 2021 (arXiv:2010.05958, doi:10.1145/3458817.3476211).

Symbols
    M               tiers; tier 1 has the devices with the shortest response times, tier M those with the longest
    w_m             model of tier m: mean of its last round, by samples
    T_m             rounds that tier m has ended; T = Σ T_m
    n_k             samples of device k
    λ               weight of the local constraint; ``mu`` here, as in FedProx

Rule
    tier m:   send w to its devices; when all have answered,  w_m = Σ n_k w_k / Σ n_k,  T_m ← T_m + 1
    then      w = Σ_m (T_{M+1−m}/T) · w_m:  slow tiers, which end fewer rounds, have the larger weights
    device:   minimises F_k(w_k) + (λ/2)‖w_k − w‖²

Readings
    Response times are measured in a first round of all devices, from dispatch to arrival. Its mean is the first model
    of every tier, with T_m = 1: with T_m = 0 the fastest tier would have no weight until the slowest has answered.
    Tiers have equal sizes (they differ by one device at most) and are not made again.

Departures
    The compression of transfers is left out.
    A device that joins later trains alone once; then it belongs to the tier with the nearest mean response time, and
    its update counts in the present round of that tier. One that leaves keeps its tier, and takes part again from the
    next round after its return. No round waits for a device that left or gave up its upload.
    A tier without devices keeps its model, which still counts. With fewer devices than M, each is a tier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from aggregator.pacing import fraction_of, normalised, sample
from aggregator.strategy import Decision, Server, Strategy
from aggregator.strategy.vectors import add_scaled
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector
from testbed.wire.training_job import Job


@dataclass(kw_only=True, slots=True)
class TierRound:
    """A synchronous round: the devices that it waits for, and the sum of what has arrived."""

    awaited: set[str] = field(default_factory=set)
    shares: dict[int, float] = field(default_factory=dict)
    """Ticket → samples."""
    _sum: Vector | None = None

    def add(self, update: Update, base: Vector) -> None:
        """Add n_k·w_k, where w_k = base + Δ_k."""
        self.awaited.discard(update.device)
        self.shares[update.ticket] = float(update.samples)
        if self._sum is None:
            self._sum = np.zeros_like(base)
        add_scaled(self._sum, update.samples, base)
        add_scaled(self._sum, update.samples, update.delta)

    def close(self) -> tuple[Vector, dict[int, float]]:
        """Return the mean, and ticket → share in it. There must be an update."""
        assert self._sum is not None
        mean, total = self._sum, sum(self.shares.values())
        mean *= np.float32(1 / total)
        shares = {ticket: share / total for ticket, share in self.shares.items()}
        self._sum, self.shares = None, {}
        return mean, shares


@dataclass(kw_only=True, slots=True)
class Tier:
    """A tier: its devices, their mean response time when it was made, its model, and T_m."""

    devices: set[str]
    response: float
    model: Vector
    rounds: int = 1
    round: TierRound = field(default_factory=TierRound)


@dataclass(kw_only=True)
class FedAT(Strategy):
    """Asynchronous tiers with synchronous rounds, slow tiers weighted up (Chai et al., SC 2021)."""

    own_selection = "chooses the devices of each tier itself"

    tiers: int = param(3, "M: tiers", at_least=1)
    mu: float = param(0.1, "λ: weight of the constraint (λ/2)‖w_k − w‖² on the device", at_least=0)
    fraction: float = param(1.0, "share of the devices of a tier that are chosen for a round", above=0, at_most=1)

    _tiers: list[Tier] = field(default_factory=list, init=False, repr=False)
    """The fastest first; empty in the first round."""
    _first: TierRound = field(default_factory=TierRound, init=False, repr=False)
    """The first round, of all devices."""
    _sent: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    """Device → when it was sent its last model."""
    _responses: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    """Device → its response time in the first round."""

    def check(self, devices: int) -> None:
        if self.tiers > devices:
            raise ParameterError(
                "tiers", f"is {self.tiers}; it must be at most {devices}, the devices of the fleet: lower it"
            )

    def job(self, device: str, server: Server) -> Job:
        return replace(server.job, proximal=self.mu)

    # ---- events

    def on_start(self, server: Server) -> Decision:
        self._first.awaited = set(server.devices)
        return self._sending(server.devices, server)

    def on_join(self, device: str, server: Server) -> Decision:
        tier = self._tier_of(device)
        if tier is not None:
            return self._close_if_due(tier, server)
        if device in self._responses:  # it has answered in the first round, left, and returned
            return self._end_first_if_due(server)
        if not self._tiers and not self._first.shares:  # nobody has answered yet: it takes part in the first round
            self._first.awaited.add(device)
        return self._sending([device], server)

    def on_leave(self, device: str, server: Server) -> Decision:
        return self._give_up(device, server)

    def on_ready(self, device: str, server: Server) -> Decision:
        decision = self._give_up(device, server)
        if self._tier_of(device) is not None or device in decision.train:
            return decision
        again = self._sending([device], server)
        return msgspec.structs.replace(decision, train={**decision.train, **again.train})

    def on_update(self, update: Update, server: Server) -> Decision:
        device, base = update.device, server.model_at(update.version)
        response = server.now - self._sent[device]
        if not self._tiers:
            self._responses[device] = response
            self._first.add(update, base)
            return self._end_first_if_due(server)
        tier = self._tier_of(device)
        if tier is None:
            tier = min(self._tiers, key=lambda each: abs(each.response - response))
            tier.devices.add(device)
        tier.round.add(update, base)
        return self._close_if_due(tier, server)

    # ---- the first round

    def _give_up(self, device: str, server: Server) -> Decision:
        """Wait no longer for a device."""
        if not self._tiers:
            self._first.awaited.discard(device)
            return self._end_first_if_due(server)
        tier = self._tier_of(device)
        if tier is None:
            return Decision()
        tier.round.awaited.discard(device)
        return self._close_if_due(tier, server)

    def _end_first_if_due(self, server: Server) -> Decision:
        """Make the tiers when every device of the first round has answered or is given up."""
        if self._first.awaited:
            return Decision()
        if not self._first.shares:  # all are given up: wait for those that are present
            self._first.awaited = set(server.devices)
            return self._sending(server.devices.keys() - server.busy.keys(), server)
        model, applied = self._first.close()
        ranked = sorted(self._responses, key=lambda device: (self._responses[device], device))
        for names in np.array_split(ranked, min(self.tiers, len(ranked))):
            devices = [str(name) for name in names]
            response = sum(self._responses[device] for device in devices) / len(devices)
            self._tiers.append(Tier(devices=set(devices), response=response, model=model))
        train = {name: job for tier in self._tiers for name, job in self._open(tier, server).items()}
        return Decision(model=model, applied=applied, train=train)

    # ---- the rounds of a tier

    def _close_if_due(self, tier: Tier, server: Server) -> Decision:
        """Make a version if the round of a tier waits for no device. Begin its next round."""
        if tier.round.awaited:
            return Decision()
        if not tier.round.shares:
            return Decision(train=self._open(tier, server))
        tier.model, shares = tier.round.close()
        tier.rounds += 1
        weights = normalised([float(each.rounds) for each in reversed(self._tiers)])  # T_{M+1−m}/T
        model = np.zeros_like(server.model)
        for weight, each in zip(weights, self._tiers, strict=True):
            add_scaled(model, weight, each.model)
        own = weights[self._tiers.index(tier)]
        applied = {ticket: own * share for ticket, share in shares.items()}
        return Decision(model=model, applied=applied, train=self._open(tier, server))

    def _open(self, tier: Tier, server: Server) -> dict[str, Job]:
        """Choose the devices of the next round of a tier."""
        idle = tier.devices & server.devices.keys() - server.busy.keys()
        chosen = sample(idle, fraction_of(self.fraction, len(idle)), server.random)
        tier.round.awaited = set(chosen)
        return dict(self._sending(chosen, server).train)

    def _sending(self, devices: Iterable[str], server: Server) -> Decision:
        """Send devices the model, and note the moment."""
        names = sorted(devices)
        self._sent.update(dict.fromkeys(names, server.now))
        return Decision(train={device: self.job(device, server) for device in names})

    def _tier_of(self, device: str) -> Tier | None:
        return next((tier for tier in self._tiers if device in tier.devices), None)
