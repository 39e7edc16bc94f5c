"""EAFL: clusters of devices that learn alike, each with one of them as its head; aggregation in two stages.

Zhou, Pang, Wang, Hu, Sun, Ren: Towards Efficient Asynchronous Federated Learning in Heterogeneous Edge Environments
(EAFL). IEEE INFOCOM 2024, pp. 2448–2457, Algorithm 1.

Symbols
    N, R, φ     clusters; iterations from one clustering to the next; share of a cluster that its head waits for
    X_n, C_n    devices of cluster n; its head
    |D_n|, |D|  samples of a cluster, of all
    Δ̄_n         what the head of cluster n makes of its members' updates (SAA)

Rule
    every R iterations all devices send a gradient; GDC puts them into N clusters, each with a random head. At t = 0
    they train for it; later they send the one that they have, and nobody's model is replaced
    an iteration: heads receive w and send it to the members that took part; each answers with Δ̄_n, made of the
    first ⌈φ·|X_n|⌉ updates that it has; when all have answered
    w ← w + Σ_n |D_n|/|D|·Δ̄_n                                                   (5)  DSA

Ablations
    gdc = false: devices are clustered once. saa = false: Δ̄_n is the plain mean. dsa = false: no head waits for another,
    w ← w + |D_n|/|D|·Δ̄_n for each answer (the paper exchanges "synchronous" and "asynchronous" there).

Readings
    The gradient that a device has (line 23) is the last update that it computed, on the model that it had then: also if
    the update is in a version already, or is still being uploaded. A device in the middle of a job sends the one before
    and continues the job; so does a head. A suspended device sends it when it continues.
    A job belongs to its device (lines 31 to 33): the device finishes it on the model that it has, and sends the update
    to its new head, with the staleness of that model. An update that waits at the old head was not used: the device
    uploads it to the new head. Only devices whose update was used get the next model, from their new heads.
    These gradients serve the clustering only.

Departures
    ``fresh = true``: at every clustering all devices train on the current model, as at t = 0. All gradients then have
    one base: they show data but no staleness, each clustering takes a synchronous round, and all jobs start over.
    Line 15 sends the model to the old heads before the clustering; here the new heads get it, after the clustering.
    A clustering waits for all gradients that can arrive, but at most ``patience`` seconds, and twice as long each time
    that fewer gradients than clusters are there by then. A device without a gradient goes into the smallest cluster:
    one that is new, or has joined again, and has computed nothing since. A device that joins later goes where it was,
    or into the smallest cluster. If no device has a gradient, all train, as at t = 0.
    A gradient is uploaded beside the job of its device, as is the result of a head: neither slows the other.
    A head that leaves, or does not answer within ``patience`` seconds, is replaced by another member at random, and the
    cluster starts over with the current model; the updates at the old head are lost. Each time in a row, the cluster
    has twice as long: too short a patience costs time, but does not stop the run. A head without other members is not
    replaced.
    |D_n| counts the members that are present. A cluster without members is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from aggregator.strategies.eafl.cluster_orders import (
    AskForGradients,
    DissolveClusters,
    Grouping,
    RecordClusters,
    Regroup,
    TrainClusters,
)
from aggregator.strategies.eafl.cluster_phase import Cluster, ClusterPhase
from aggregator.strategies.eafl.clustering import cluster, heads
from aggregator.strategies.eafl.gradient_phase import GradientPhase
from aggregator.strategies.eafl.two_stage import dsa, dsa_weights, quorum
from aggregator.strategy import Decision, Server, Strategy
from testbed.common.number_limits import LONGEST, SHORTEST
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update
from testbed.wire.training_job import Job

_FOR_CLUSTERING = "it was for the clustering only"
_TOO_LATE = "it arrived too late for the clustering"


@dataclass(kw_only=True)
class EAFL(Strategy):
    """Clusters by gradients, with heads that are devices; two stages (Zhou et al., 2024)."""

    unrepeatable = "it has cluster heads, and a strict replay does not order the arrivals at them"
    own_selection = "lets the heads of clusters select devices"

    clusters: int = param(2, "N: clusters (the paper has 5 and 15)", at_least=1)
    every: int = param(100, "R: iterations from one clustering to the next", at_least=1)
    phi: float = param(0.1, "φ: share of a cluster whose updates its head waits for", above=0, at_most=1)
    patience: float = param(
        60.0, "seconds after which a head that has not answered is replaced", at_least=SHORTEST, at_most=LONGEST
    )
    gdc: bool = param(True, "whether devices are clustered every R iterations; else once")
    saa: bool = param(True, "whether stale updates have smaller weights within a cluster; else equal ones")
    dsa: bool = param(True, "whether heads wait for each other; else each gets the next model at once")
    fresh: bool = param(False, "whether devices train for every clustering; else they send the gradients they have")

    _phase: GradientPhase | ClusterPhase = field(default_factory=ClusterPhase, init=False, repr=False)

    @property
    def keeps_updates(self) -> bool:
        return self.gdc and not self.fresh

    @property
    def keeps_old_base(self) -> bool:
        return False

    def check(self, devices: int) -> None:
        if self.clusters > devices:
            raise ParameterError(
                "clusters", f"is {self.clusters}; it must be at most {devices}, the devices of the fleet"
            )

    @classmethod
    def preload(cls) -> None:
        import sklearn.cluster  # noqa: F401

    # ---- events

    def on_start(self, server: Server) -> Decision:
        return self._train_for_gradients(server)

    def on_join(self, device: str, server: Server) -> Decision:
        phase = self._phase
        if isinstance(phase, GradientPhase):
            return self._cluster_if_due(phase, server, train=[device] if phase.join(device) else [])
        if not phase.clusters:
            return self._train_for_gradients(server)
        return self._iterate_if_due(phase, server, changed=[phase.join(device)])

    def on_leave(self, device: str, server: Server) -> Decision:
        phase = self._phase
        if isinstance(phase, GradientPhase):
            phase.leave(device)
            return self._cluster_if_due(phase, server)
        return self._iterate_if_due(phase, server, changed=phase.leave(device))

    def on_ready(self, device: str, server: Server) -> Decision:
        phase = self._phase
        if isinstance(phase, GradientPhase):
            phase.skip(device)
            return self._cluster_if_due(phase, server)
        return self._iterate_if_due(phase, server, again=phase.headed_by(device))  # the result of this head is lost

    def on_update(self, update: Update, server: Server) -> Decision:
        phase = self._phase
        if isinstance(phase, GradientPhase):
            reason = _FOR_CLUSTERING if phase.receive(update) else _TOO_LATE
            return replace(self._cluster_if_due(phase, server), rejected={update.ticket: reason})
        rejected = {} if phase.receive(update, server) else {update.ticket: _TOO_LATE}
        return replace(self._iterate_if_due(phase, server), rejected=rejected)

    def on_wake(self, server: Server) -> Decision:
        phase = self._phase
        if isinstance(phase, GradientPhase):
            return self._cluster_if_due(phase, server)
        return self._iterate_if_due(phase, server)

    # ---- Algorithm 1, lines 4 to 12

    def _train_for_gradients(self, server: Server) -> Decision:
        """Let all devices train for the clustering (lines 6, 8 and 21). Without devices there are no clusters."""
        if not server.devices:
            self._phase = ClusterPhase()
            return Decision()
        closes_at = self._await_gradients(server, trains=True)
        return Decision(train=self._jobs(server.devices, server), orders=(DissolveClusters(),), wake_at=closes_at)

    def _ask_for_gradients(self, server: Server) -> Decision:
        """Send the clustering signal to all devices (line 8): they send the gradients that they have (line 23)."""
        closes_at = self._await_gradients(server, trains=False)
        return Decision(orders=(AskForGradients(self._jobs(server.devices, server)),), wake_at=closes_at)

    def _await_gradients(self, server: Server, *, trains: bool) -> float:
        self._phase = phase = GradientPhase.begin(
            server.devices, server.now, trains=trains, wanted=self.clusters, patience=self.patience
        )
        return phase.closes_at

    def _jobs(self, devices: Iterable[str], server: Server) -> dict[str, Job]:
        return {device: self.job(device, server) for device in sorted(devices)}

    def _cluster_if_due(self, phase: GradientPhase, server: Server, *, train: Sequence[str] = ()) -> Decision:
        """Cluster the devices once the gradients are here; until then, train the devices in ``train``."""
        if not phase.is_over(server.now):  # line 9
            phase.extend_if_overdue(server.now)
            return Decision(train=self._jobs(train, server), wake_at=phase.closes_at)
        if not phase.gradients:
            return self._train_for_gradients(server)
        found = cluster(phase.gradients, self.clusters, server.random)  # line 10: GDC
        self._phase = clusters = ClusterPhase.begin(found, heads(found, server.random), server.devices)
        groups = [self._group(each) for each in clusters.clusters]  # line 11
        decision = self._send_model(clusters, clusters.clusters, server)
        ended = () if phase.trains else (DissolveClusters(carry=True),)
        orders = (*ended, RecordClusters([group.members for group in groups]), Regroup(groups), *decision.orders)
        return replace(decision, orders=orders)

    # ---- Algorithm 1, lines 13 to 15

    def _iterate_if_due(
        self, phase: ClusterPhase, server: Server, *, changed: Sequence[Cluster] = (), again: Sequence[Cluster] = ()
    ) -> Decision:
        """Aggregate once the results are here. ``changed`` have other members; ``again`` need the model again."""
        phase.drop_empty()
        answered = phase.answered()
        if answered and (not self.dsa or len(answered) == len(phase.clusters)):  # line 13
            return self._aggregate(phase, answered, changed, server)
        if not phase.clusters:
            return self._train_for_gradients(server)
        return self._keep_clusters_working(phase, changed, again, server)

    def _aggregate(
        self, phase: ClusterPhase, answered: Sequence[Cluster], changed: Sequence[Cluster], server: Server
    ) -> Decision:
        results = [each.result for each in answered if each.result is not None]
        samples = [each.samples for each in answered]
        total = None if self.dsa else phase.samples(server)
        model = dsa(server.model, [result.delta for result in results], samples, total)  # line 14: DSA
        weights = dsa_weights(samples, total)
        applied = {result.ticket: weight for result, weight in zip(results, weights, strict=True)}
        for each in answered:
            each.result = None
        phase.iterations += 1
        phase.drop_empty()
        if server.devices and not phase.clusters:
            return replace(self._train_for_gradients(server), model=model, applied=applied)
        if server.devices and self.gdc and phase.iterations >= self.every:  # line 4
            asked = self._train_for_gradients(server) if self.fresh else self._ask_for_gradients(server)
            return replace(asked, model=model, applied=applied)
        decision = self._keep_clusters_working(phase, changed, answered, server)  # line 15
        return replace(decision, model=model, applied=applied)

    def _keep_clusters_working(
        self, phase: ClusterPhase, changed: Sequence[Cluster], again: Sequence[Cluster], server: Server
    ) -> Decision:
        """Replace heads, announce the clusters that have changed, and send the model to ``again`` and to new heads."""
        replaced = phase.replace_heads(server, self.patience)
        present = [each for each in phase.clusters if each.members]
        decision = self._send_model(phase, [each for each in present if each in again or each in replaced], server)
        groups = [self._group(each) for each in present if each.head and (each in changed or each in replaced)]
        return replace(decision, orders=(Regroup(groups), *decision.orders))

    def _send_model(self, phase: ClusterPhase, clusters: Sequence[Cluster], server: Server) -> Decision:
        train = {each.head: self.job(each.head, server) for each in clusters}
        for each in clusters:
            each.set_deadline(server.now, self.patience)
        due = phase.next_deadline
        return Decision(orders=(TrainClusters(train),), wake_at=due if due < math.inf else None)

    def _group(self, each: Cluster) -> Grouping:
        members = tuple(sorted(each.members))
        return Grouping(
            cluster=each.number, head=each.head, members=members, quorum=quorum(self.phi, len(members)), damped=self.saa
        )
