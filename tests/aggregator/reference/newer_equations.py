"""The equations of the strategies of other papers: server optimisers, cached updates, tiers, and robust means.

As in ``equations``: in double precision, and written from the descriptions of the papers, not from the strategies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.aggregator.reference.equations import Prediction, only, total
from tests.aggregator.reference.observed import F64, Arrival, Reference


class ServerOptimiserReference(Reference):
    """Reddi et al. 2021, Algorithm 2 with (FedAdagrad), (FedYogi), (FedAdam): v from τ², no bias correction; FedAvgM.

    ``delta`` is Δ_t of the strategy: here the mean by samples.
    """

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.m: F64 = np.zeros_like(model)
        self.v: F64 = np.full_like(model, self.parameters.get("tau", 0.0) ** 2)

    def shares(self, pending: list[Arrival]) -> dict[int, float]:
        """Ticket → weight in Δ_t."""
        everything = sum(each.samples for each in pending)
        return {each.ticket: each.samples / everything for each in pending}

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        p, shares = self.parameters, self.shares(pending)
        delta = total(shares, pending, np.zeros_like(self.x[-1]))
        if p["optimizer"] == "momentum":
            self.m = p["beta1"] * self.m + delta
            return self.x[-1] + p["eta"] * self.m, shares
        self.m = p["beta1"] * self.m + (1 - p["beta1"]) * delta
        self.v = self.second_moment(delta**2)
        return self.x[-1] + p["eta"] * self.m / (np.sqrt(self.v) + p["tau"]), shares

    def second_moment(self, square: F64) -> F64:
        beta2 = self.parameters["beta2"]
        match self.parameters["optimizer"]:
            case "adagrad":
                return self.v + square
            case "yogi":
                return self.v - (1 - beta2) * square * np.sign(self.v - square)
            case _:
                return beta2 * self.v + (1 - beta2) * square


class OptimisedBufferReference(ServerOptimiserReference):
    """FedBuff with a server optimiser: Δ_t = (1/K') Σ Δ_i/√(1 + τ_i)."""

    def shares(self, pending: list[Arrival]) -> dict[int, float]:
        return {each.ticket: 1 / len(pending) / math.sqrt(1 + self.tau(each)) for each in pending}


class FADASReference(Reference):
    """Wang et al. 2024: AMSGrad on the mean of the buffer; min(η, 1/τ_max) beyond τ_c, or η/τ_max (scaled)."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.m, self.v, self.largest = (np.zeros_like(model) for _ in range(3))

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        p, weights = self.parameters, {each.ticket: 1 / len(pending) for each in pending}
        delta = total(weights, pending, np.zeros_like(self.x[-1]))
        self.m = p["beta1"] * self.m + (1 - p["beta1"]) * delta
        self.v = p["beta2"] * self.v + (1 - p["beta2"]) * delta**2
        self.largest = np.maximum(self.largest, self.v)
        tau = max(self.tau(each) for each in pending)
        if tau <= p["tau_c"]:
            rate = p["eta"]
        else:
            rate = p["eta"] / tau if p.get("slower") == "scaled" else min(p["eta"], 1 / tau)
        return self.x[-1] + rate * self.m / (np.sqrt(self.largest) + p["epsilon"]), weights


class CA2FLReference(Reference):
    """Wang et al. 2024, Algorithm 2: v = h + (1/K) Σ (Δ_i − h_i)."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.h: dict[str, F64] = {}

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        zero, count = np.zeros_like(self.x[-1]), len(self.samples)
        eta = min(self.parameters["k"] / count, 1.0)
        calibrated = sum(each.delta - self.h.get(each.device, zero) for each in pending) / len(pending)
        model = self.x[-1] + eta * (sum(self.h.values(), zero) / count + calibrated)
        self.h |= {each.device: each.delta for each in pending}
        return model, {each.ticket: eta / len(pending) for each in pending}


class ACEDReference(Reference):
    """Chang et al. 2025: the mean of the latest gradient of each device; ACED: of those that answered lately."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.latest: dict[str, tuple[int, F64]] = {}

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        update, oldest = only(pending), self.parameters.get("tau_algo")
        self.latest[update.device] = self.t + 1, update.delta
        if oldest is not None:
            self.latest = {name: each for name, each in self.latest.items() if self.t - each[0] <= oldest}
        share = 1 / (len(self.samples) if oldest is None else len(self.latest))
        mean = share * sum(delta for _, delta in self.latest.values())
        return self.x[-1] + share * mean, {update.ticket: share * share}


class TrimmedReference(Reference):
    """Yin et al. 2018, Definitions 1 and 2: the median, or the mean without a share β at each end."""

    waits = True

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        deltas, count = np.array([each.delta for each in pending]), len(pending)
        beta = self.parameters.get("beta")
        middle = (count - 1) // 2
        cut = middle if beta is None else min(math.ceil(beta * count - 1e-9), middle)  # the paper does not round
        ordered = np.sort(deltas, axis=0)[cut : count - cut]
        kept = ((deltas >= ordered[0]) & (deltas <= ordered[-1])).sum(axis=1)
        weights = {each.ticket: share for each, share in zip(pending, kept / kept.sum(), strict=True)}
        return self.x[-1] + ordered.mean(axis=0), weights


class KrumReference(Reference):
    """Blanchard et al. 2017: the update with the smallest sum of squared distances to its K − f − 2 neighbours."""

    waits = True

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        neighbours = max(len(pending) - self.parameters["f"] - 2, 1)
        scores = [self._score(each, pending, neighbours) for each in pending]
        best = sorted(range(len(pending)), key=scores.__getitem__)[: self.parameters["m"]]
        weights = {pending[i].ticket: 1 / len(best) for i in best}
        return total(weights, [pending[i] for i in best], self.x[-1]), weights

    @staticmethod
    def _score(one: Arrival, pending: Sequence[Arrival], neighbours: int) -> float:
        squares = sorted(float(((one.delta - each.delta) ** 2).sum()) for each in pending if each is not one)
        return sum(squares[:neighbours])


class FedATReference(Reference):
    """Chai et al. 2021: the mean of the tiers' models, tier m with the number of rounds of tier M + 1 − m."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.last_sent: dict[str, float] = {}
        self.responses: dict[str, float] = {}
        self.tiers: list[set[str]] = []
        self.models: list[F64] = []
        self.rounds: list[int] = []
        self.means: list[float] = []

    def sent(self, device: str, now: float) -> None:
        self.last_sent[device] = now

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        used = [each for each in pending if each.ticket in self.chosen]
        samples = sum(each.samples for each in used)
        shares = {each.ticket: each.samples / samples for each in used}
        mean = sum(shares[each.ticket] * (self.x[each.base] + each.delta) for each in used)
        if not self.tiers:
            self._make_tiers(mean)
            return mean, shares
        number = self._tier_of(used)
        self.models[number] = mean
        self.rounds[number] += 1
        weights = [count / sum(self.rounds) for count in reversed(self.rounds)]
        model = sum(weight * each for weight, each in zip(weights, self.models, strict=True))
        return model, {ticket: weights[number] * share for ticket, share in shares.items()}

    def _make_tiers(self, mean: F64) -> None:
        ranked = sorted(self.responses, key=lambda name: (self.responses[name], name))
        parts = np.array_split(ranked, min(self.parameters["tiers"], len(ranked)))
        self.tiers = [{str(name) for name in part} for part in parts]
        self.means = [float(np.mean([self.responses[name] for name in tier])) for tier in self.tiers]
        self.models, self.rounds = [mean] * len(self.tiers), [1] * len(self.tiers)

    def _tier_of(self, used: Sequence[Arrival]) -> int:
        known = {i for i, tier in enumerate(self.tiers) if any(each.device in tier for each in used)}
        if known:
            (number,) = known
        else:  # a device that joined later, alone in its tier's round
            number = int(np.argmin([abs(mean - self.responses[used[0].device]) for mean in self.means]))
        self.tiers[number] |= {each.device for each in used}
        return number

    def arrived(self, arrival: Arrival) -> None:
        response = arrival.t - self.last_sent[arrival.device]
        if not self.tiers or not any(arrival.device in tier for tier in self.tiers):
            self.responses[arrival.device] = response


class FedCompassReference(Reference):
    """Li et al. 2024: x + α Σ s(τ_i)·p_i·Δ_i over the updates of a group, p_i by samples, s(τ) = (1 + τ)^−a."""

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        p, everything = self.parameters, sum(self.samples.values())
        used = [each for each in pending if each.ticket in self.chosen]
        weights = {
            each.ticket: p["alpha"] * (1 + self.tau(each)) ** -p["a"] * each.samples / everything for each in used
        }
        return total(weights, used, self.x[-1]), weights
