"""The printed equations of every strategy in double precision, written from the papers and not from the strategies.

Each class has the number of its equation. ``x[t]`` is version t; an update's local model is x[base] + Δ, and its
staleness τ is t − base. Parameters have the names that they have in a profile.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from tests.aggregator.reference.observed import F64, Arrival, Reference

Prediction = tuple[F64, dict[int, float]]


def only(pending: Sequence[Arrival]) -> Arrival:
    """The update of a strategy that decides at each arrival."""
    (arrival,) = pending
    return arrival


def total(weights: dict[int, float], pending: Sequence[Arrival], x: F64) -> F64:
    """x + Σ weight·Δ."""
    return x + sum(weights[each.ticket] * each.delta for each in pending)


class RoundBySamples(Reference):
    """FedAvg (McMahan et al. 2017, Algorithm 1), FedProx: w ← Σ n_k/n w_k. Sync-FL: equal shares."""

    def share(self, arrival: Arrival) -> float:
        return arrival.samples if self.parameters.get("weighting", "samples") == "samples" else 1.0

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        everything = sum(self.share(each) for each in pending)
        weights = {each.ticket: self.share(each) / everything for each in pending}
        return total(weights, pending, self.x[-1]), weights


class FedAsyncReference(Reference):
    """Wang et al. 2022, (40) and (41)."""

    def s(self, tau: int) -> float:
        p = self.parameters
        if p["damping"] == "hinge":
            return 1.0 if tau <= p["b"] else 1 / (p["a"] * (tau - p["b"]) + 1)
        return (tau + 1.0) ** -p["a"] if p["damping"] == "polynomial" else 1.0

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        update = only(pending)
        alpha = self.parameters["alpha"] * self.s(self.tau(update))
        local = self.x[update.base] + update.delta
        return (1 - alpha) * self.x[-1] + alpha * local, {update.ticket: alpha}


class AsyncFedEDReference(Reference):
    """Wang et al. 2022, (5) to (8); a newly connected device begins with the initial K (Algorithm 1)."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.k: dict[str, int] = {}

    def joined(self, device: str) -> None:
        self.k[device] = self.parameters["steps"]

    def steps(self, device: str) -> int | None:
        return self.k[device]

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        update, p = only(pending), self.parameters
        gamma = float(np.linalg.norm(self.x[-1] - self.x[update.base]) / np.linalg.norm(update.delta))  # (6)
        rate = p["lam"] / (gamma + p["eps"])  # (7)
        change = math.floor((p["gamma_bar"] - gamma) * p["kappa"])
        self.k[update.device] = min(max(1, self.k[update.device] + change), p["k_max"])  # (8)
        return self.x[-1] + rate * update.delta, {update.ticket: rate}  # (5)


class AFLReference(Reference):
    """Forootani and Iervolino 2025, Algorithm 1: the mean of the last model of each device that has sent one."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.last: dict[str, F64] = {}

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        update = only(pending)
        self.last[update.device] = self.x[update.base] + update.delta
        mean: F64 = np.mean(list(self.last.values()), axis=0)
        return mean, {update.ticket: 1 / len(self.last)}


class BufferReference(Reference):
    """x ← x + Σ weight(τ, K')·Δ of K' updates: FedBuff (Nguyen et al. 2022, Algorithm 1)."""

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        assert len(pending) <= self.parameters["k"]
        weigh = self.parameters["weight"]
        weights = {each.ticket: weigh(self.tau(each), len(pending)) for each in pending}
        return total(weights, pending, self.x[-1]), weights


class SAFLReference(BufferReference):
    """Chen et al. 2024: the mean of K updates, one of each device; SAFL-SC, too."""

    waits = True


class MixedReference(Reference):
    """EAFL's (1), and TWAFL: w ← (1 − α)w + α Σ ρ_i w_i, ρ_i ∝ n_i·s(τ_i)."""

    waits = True

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        assert len(pending) <= self.parameters["k"]
        alpha, s = self.parameters["alpha"], self.parameters["s"]
        raw = {each.ticket: each.samples * s(self.tau(each)) for each in pending}
        weights = {ticket: alpha * share / sum(raw.values()) for ticket, share in raw.items()}
        mixed = (1 - alpha) * self.x[-1]
        for each in pending:
            mixed = mixed + weights[each.ticket] * (self.x[each.base] + each.delta)
        return mixed, weights


class GSGMReference(Reference):
    """Wang et al. 2022 (IoT Journal): white list, mean of the last s gradients, v ← βv + ḡ, w ← w − ηv."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.v: F64 = np.zeros_like(model)
        self.window: deque[F64] = deque(maxlen=int(self.parameters["s"]))
        self.served: set[str] = set()

    def left(self, device: str) -> None:
        self._refill()

    def _refill(self) -> None:
        if self.present <= self.served:
            self.served = set()

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        update = next(each for each in pending if each.device not in self.served)
        self.served.add(update.device)
        self._refill()
        self.window.append(update.delta)
        beta = self.parameters["beta"]
        eta = (1 - beta) / max(len(self.present), 1)
        self.v = beta * self.v + np.mean(self.window, axis=0)
        return self.x[-1] + eta * self.v, {update.ticket: eta / len(self.window)}


class TickReference(Reference):
    """Hao et al. 2025: at tick k, the updates that arrived in [(k − 1)·T, k·T), the last one of each device."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.tick = 0

    def share(self, device: str) -> float:
        """λ_i, Σλ = 1 over all devices."""
        if self.parameters.get("weighting") == "equal":
            return 1 / len(self.samples)
        return self.samples[device] / sum(self.samples.values())

    def weights(self, used: Sequence[Arrival]) -> dict[int, float]:
        """λ_i of each update; with ``normalised``, divided by their sum."""
        everything = sum(self.share(each.device) for each in used) if self.parameters.get("normalised") else 1.0
        return {each.ticket: self.share(each.device) / everything for each in used}

    def in_interval(self, pending: list[Arrival]) -> list[Arrival]:
        self.tick += 1
        end = self.tick * self.parameters["interval"]
        return list({each.device: each for each in pending if each.t < end}.values())


class AUDGReference(TickReference):
    """Hao et al. 2025, (13)."""

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        heard = self.in_interval(pending)
        weights = self.weights(heard)
        return total(weights, heard, self.x[-1]), weights


class PSURDGReference(TickReference):
    """Hao et al. 2025, (46): the last gradient of every device."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.last: dict[str, Arrival] = {}

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        self.last |= {each.device: each for each in self.in_interval(pending)}
        weights = self.weights(list(self.last.values()))
        return total(weights, list(self.last.values()), self.x[-1]), weights


class ASAFLReference(Reference):
    """Chen et al. 2024, (5) and Algorithm 1, line 9; differences (Algorithm 4) are added to what was there."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.gradient: dict[str, F64] = {}
        self.ticket: dict[str, int] = {}

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        for each in pending:
            if self.parameters["light"] and each.since != self.ticket.get(each.device, 0):
                continue
            old = self.gradient.get(each.device, 0.0) if self.parameters["light"] else 0.0
            self.gradient[each.device], self.ticket[each.device] = old + each.delta, each.ticket
        share = 1 / len(self.samples)
        return self.x[-1] + share * sum(self.gradient.values()), dict.fromkeys(self.ticket.values(), share)


class WKAFLReference(Reference):
    """The authors' program: momentum, clip, estimate by staleness, select and weight by cosine, rate by the least τ."""

    waits = True

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.u: F64 = np.zeros_like(model)

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        p, tau = self.parameters, [self.tau(each) for each in pending]
        raw = [each.delta + p["alpha"] * self.u for each in pending]
        scales = [min(1.0, p["clip"] * p["lr"] / float(np.linalg.norm(g))) for g in raw]
        clipped = [scale * g for scale, g in zip(scales, raw, strict=True)]
        stage1 = np.array([(math.e / 2) ** -each for each in tau])
        stage1 /= stage1.sum()
        estimate = sum(weight * g for weight, g in zip(stage1, clipped, strict=True))
        cosines = [float(g @ estimate / np.linalg.norm(g) / np.linalg.norm(estimate)) for g in clipped]
        kept = [i for i, each in enumerate(cosines) if each >= p["theta"] - 1e-6]
        q = np.array([stage1[i] * math.exp(p["beta"] * cosines[i]) for i in kept])
        chosen = dict(zip(kept, q / q.sum(), strict=True)) if kept else dict(enumerate(stage1))
        self.u = sum(weight * clipped[i] for i, weight in chosen.items())
        rate = 1 / (1 + p["c"] * min(tau))
        weights = {pending[i].ticket: rate * weight * scales[i] for i, weight in chosen.items()}
        return self.x[-1] + rate * self.u, weights


class EAFLReference(Reference):
    """Zhou et al. 2024, (5): the results of the cluster heads, by the samples of their clusters."""

    def __init__(self, model: F64, **parameters: object) -> None:
        super().__init__(model, **parameters)
        self.members: dict[str, list[str]] = {}
        """Head → devices of its cluster."""
        self.cluster_samples: dict[int, int] = {}

    def grouped(self, head: str, members: list[str]) -> None:
        self.members[head] = members

    def arrived(self, arrival: Arrival) -> None:
        members = self.members.get(arrival.device, [])
        self.cluster_samples[arrival.ticket] = sum(self.samples[name] for name in members if name in self.present)

    def version(self, pending: list[Arrival], now: float) -> Prediction:
        used = [each for each in pending if each.ticket in self.chosen]
        everything = sum(self.cluster_samples[each.ticket] for each in used)
        weights = {each.ticket: self.cluster_samples[each.ticket] / everything for each in used}
        return total(weights, used, self.x[-1]), weights


def saa(updates: Sequence[tuple[F64, int, int]]) -> F64:
    """Zhou et al. 2024, (3) and (4): Δ, samples and staleness of each update → the result of a cluster."""
    everything = sum(samples for _, samples, _ in updates)
    return sum(samples / everything / (tau + 1) * delta for delta, samples, tau in updates)
