"""EAFL: clusters of devices that learn alike, each with a head that is one of them; aggregated in two stages.

Zhou, Pang, Wang, Hu, Sun, Ren: Towards Efficient Asynchronous Federated Learning in Heterogeneous Edge Environments
(EAFL). 2024, Algorithm 1.

Symbols
    N, R, φ     clusters; iterations from one clustering to the next; share of a cluster that its head waits for
    X_n, C_n    devices of cluster n; its head
    |D_n|, |D|  samples of a cluster, of all
    Δ̄_n         what the head of cluster n has made of its members' updates (SAA)

Rule
    every R iterations all devices send a gradient; GDC puts them into N clusters, with a head each at random
    an iteration: heads are sent w, and pass it on to the members that took part; each answers with Δ̄_n, made of the
    first ⌈φ·|X_n|⌉ updates that it has; when all have answered
    w ← w + Σ_n |D_n|/|D|·Δ̄_n                                                   (5)  DSA

Ablations
    gdc = false: clusters are made once. saa = false: Δ̄_n is the plain mean. dsa = false: no head waits for another,
    w ← w + |D_n|/|D|·Δ̄_n for each answer (the paper has "synchronous" and "asynchronous" the wrong way round there).

Departures
    At each clustering all devices train on the current model. In the paper they do so at t = 0 only, and send later
    what they have. As in the paper, these updates serve for nothing but the clustering.
    A clustering waits for all that can come, but no longer than ``patience``, and twice as long each time that there
    are fewer gradients than clusters by then; who has sent nothing goes into the smallest cluster. Who joins later
    goes where it was, or into the smallest.
    A head that has gone, or has not answered ``patience`` seconds after it was sent the model, is replaced by another
    member at random, and the cluster begins anew with the current model; what the old head held is lost. Each time in
    a row, the cluster is given twice as long: patience that is too short costs time, but does not stop the run. A
    device that is alone in its cluster is waited for.
    |D_n| is of the members that are present. A cluster that nobody is left of is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from aggregator.strategies.eafl.cluster_orders import DissolveClusters, Grouping, RecordClusters, Regroup, TrainClusters
from aggregator.strategies.eafl.clustering import cluster, heads
from aggregator.strategies.eafl.two_stage import dsa, dsa_weights, quorum
from aggregator.strategy import Decision, Server, Strategy
from testbed.common.parameters import ParameterError, param
from testbed.wire.messages import Update, Vector

_FOR_CLUSTERING = "it was for the clustering only"
_TOO_LATE = "it came too late for the clustering"


@dataclass(slots=True, kw_only=True)
class _Cluster:
    number: int
    members: set[str]
    head: str = ""
    """Empty: it has gone."""
    due: float = math.inf
    """When another takes its place; infinity while nothing is asked of it."""
    strikes: int = 0
    """Heads in a row that were too slow."""
    result: Update | None = None
    samples: int = 0
    """|D_n| when the result came."""


@dataclass(kw_only=True)
class EAFL(Strategy):
    """Clusters by gradients, with heads that are devices; two stages (Zhou et al., 2024)."""

    unrepeatable = "it has cluster heads, and nobody orders what arrives at them"
    keeps_old_base = False

    clusters: int = param(2, "N: clusters (the paper has 5 and 15)", at_least=1)
    every: int = param(100, "R: iterations from one clustering to the next", at_least=1)
    phi: float = param(0.1, "φ: share of a cluster whose updates its head waits for", above=0, at_most=1)
    patience: float = param(60.0, "seconds after which a head that has not answered is replaced", above=0)
    gdc: bool = param(True, "whether devices are clustered again; else once")
    saa: bool = param(True, "whether stale updates weigh less within a cluster; else all the same")
    dsa: bool = param(True, "whether heads wait for each other; else each has its answer at once")

    _clusters: list[_Cluster] = field(default_factory=list, init=False, repr=False)
    _gradients: dict[str, Vector] = field(default_factory=dict, init=False, repr=False)
    _awaited: set[str] = field(default_factory=set, init=False, repr=False)
    """Whose gradients are to come."""
    _closes_at: float | None = field(default=None, init=False, repr=False)
    """When devices are clustered with what is there; None: there are clusters, or nobody is there."""
    _delays: int = field(default=0, init=False, repr=False)
    """How often in a row there was too little by then."""
    _homes: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """Device → its cluster, whether it is there or not."""
    _iterations: int = field(default=0, init=False, repr=False)
    """Since the last clustering."""

    def check(self, devices: int) -> None:
        if self.clusters > devices:
            raise ParameterError(
                "clusters", f"is {self.clusters}; it must be at most {devices}, the devices of the fleet"
            )

    @classmethod
    def preload(cls) -> None:
        import sklearn.cluster  # noqa: F401

    # ---- what happens

    def on_start(self, server: Server) -> Decision:
        return self._collect(server) if server.devices else Decision()

    def on_join(self, device: str, server: Server) -> Decision:
        if self._closes_at is not None:
            self._awaited.add(device)
            return self._go_on(server, train=[device])
        if not self._clusters:
            return self._collect(server)
        smallest = min(self._clusters, key=lambda each: (len(each.members), each.number))
        home = next((each for each in self._clusters if each.number == self._homes.get(device)), smallest)
        home.members.add(device)
        self._homes[device] = home.number
        return self._go_on(server, changed=[home])

    def on_leave(self, device: str, server: Server) -> Decision:
        self._awaited.discard(device)
        self._gradients.pop(device, None)
        changed = [each for each in self._clusters if device in each.members]
        for each in changed:
            each.members.discard(device)
            each.head = "" if each.head == device else each.head
        return self._go_on(server, changed=changed)

    def on_ready(self, device: str, server: Server) -> Decision:
        self._awaited.discard(device)
        if self._closes_at is not None:
            return self._go_on(server)
        again = [each for each in self._clusters if each.head == device]  # what its members made is lost: once more
        return self._go_on(server, lead=again)

    def on_update(self, update: Update, server: Server) -> Decision:
        if update.device in self._awaited:
            self._awaited.discard(update.device)
            self._gradients[update.device] = update.delta
            return self._go_on(server, rejected={update.ticket: _FOR_CLUSTERING})
        of = next((each for each in self._clusters if each.head == update.device and each.result is None), None)
        if of is None:
            return self._go_on(server, rejected={update.ticket: _TOO_LATE})
        of.result, of.samples, of.strikes, of.due = update, self._samples(of, server), 0, math.inf
        return self._go_on(server)

    def on_wake(self, server: Server) -> Decision:
        return self._go_on(server)

    # ---- what follows

    def _go_on(
        self,
        server: Server,
        *,
        changed: Sequence[_Cluster] = (),
        lead: Sequence[_Cluster] = (),
        train: Sequence[str] = (),
        rejected: dict[int, str] | None = None,
    ) -> Decision:
        if self._closes_at is not None:
            decision = self._cluster_if_due(server, train)
        else:
            decision = self._iterate_if_due(server, changed, lead)
        return replace(decision, rejected={**decision.rejected, **(rejected or {})})

    def _collect(self, server: Server) -> Decision:
        """Ask all devices for a gradient."""
        self._clusters, self._gradients, self._homes, self._iterations = [], {}, {}, 0
        self._awaited, self._closes_at, self._delays = set(server.devices), server.now + self.patience, 0
        train = {device: self.job(device, server) for device in sorted(self._awaited)}
        return Decision(train=train, orders=(DissolveClusters(),), wake_at=self._closes_at)

    def _cluster_if_due(self, server: Server, train: Sequence[str]) -> Decision:
        assert self._closes_at is not None
        overdue = server.now >= self._closes_at
        if self._awaited and not (overdue and len(self._gradients) >= self.clusters):
            if overdue:  # with too few to tell devices apart; to begin again would restart everyone, for ever
                self._delays += 1
                self._closes_at = server.now + self.patience * 2**self._delays
            jobs = {device: self.job(device, server) for device in train}
            return Decision(train=jobs, wake_at=self._closes_at)
        if not self._gradients:
            self._closes_at = None
            return self._collect(server) if server.devices else Decision()
        found = cluster(self._gradients, self.clusters, server.random)
        chosen = heads(found, server.random)
        self._clusters = [
            _Cluster(number=number, members=set(members), head=head)
            for number, (members, head) in enumerate(zip(found, chosen, strict=True))
        ]
        for device in sorted(server.devices.keys() - self._gradients.keys()):
            min(self._clusters, key=lambda each: len(each.members)).members.add(device)
        self._homes = {device: each.number for each in self._clusters for device in each.members}
        self._gradients, self._awaited, self._closes_at = {}, set(), None
        every = self._lead(self._clusters, server)
        groups = [self._group(each) for each in self._clusters]
        return replace(
            every, orders=(RecordClusters([group.members for group in groups]), Regroup(groups), *every.orders)
        )

    def _iterate_if_due(self, server: Server, changed: Sequence[_Cluster], lead: Sequence[_Cluster]) -> Decision:
        # one that has answered counts, although nobody may be left of it
        self._clusters = [each for each in self._clusters if each.members or each.result is not None]
        ready = [each for each in self._clusters if each.result is not None]
        if ready and (not self.dsa or len(ready) == len(self._clusters)):
            return self._aggregate(ready, changed, server)
        if not self._clusters:
            return self._collect(server) if server.devices else Decision()
        return self._tell(server, changed, lead)

    def _aggregate(self, ready: Sequence[_Cluster], changed: Sequence[_Cluster], server: Server) -> Decision:
        results = [each.result for each in ready if each.result is not None]
        samples = [each.samples for each in ready]
        total = (
            None
            if self.dsa
            else sum(samples) + sum(self._samples(each, server) for each in self._clusters if each.result is None)
        )
        model = dsa(server.model, [result.delta for result in results], samples, total)
        weights = dsa_weights(samples, total)
        applied = {result.ticket: weight for result, weight in zip(results, weights, strict=True)}
        for each in ready:
            each.result = None
        self._iterations += 1
        self._clusters = [each for each in self._clusters if each.members]
        if server.devices and (not self._clusters or (self.gdc and self._iterations >= self.every)):
            return replace(self._collect(server), model=model, applied=applied)
        return replace(self._tell(server, changed, ready), model=model, applied=applied)

    def _tell(self, server: Server, changed: Sequence[_Cluster], lead: Sequence[_Cluster]) -> Decision:
        """Clusters that have changed, or have another head; and the model to heads that are new or to go on."""
        replaced = [each for each in self._clusters if self._replace_if_due(each, server)]
        present = [each for each in self._clusters if each.members]
        decision = self._lead([each for each in present if each in lead or each in replaced], server)
        groups = [self._group(each) for each in present if each.head and (each in changed or each in replaced)]
        return replace(decision, orders=(Regroup(groups), *decision.orders))

    def _replace_if_due(self, each: _Cluster, server: Server) -> bool:
        """Whether the cluster has another head now, and is to begin anew. Not while its answer waits for others'."""
        overdue = server.now >= each.due
        if not each.members or each.result is not None or (each.head and not overdue):
            return False
        each.strikes += overdue and bool(each.head)
        others = sorted(each.members - {each.head})
        if not others:  # there is nobody else
            each.due = server.now + self.patience * 2**each.strikes
            return False
        each.head = others[int(server.random.integers(len(others)))]
        return True

    def _lead(self, those: Sequence[_Cluster], server: Server) -> Decision:
        train = {}
        for each in those:
            train[each.head] = self.job(each.head, server)
            each.due = server.now + self.patience * 2**each.strikes
        due = min((each.due for each in self._clusters), default=math.inf)
        return Decision(orders=(TrainClusters(train),), wake_at=due if due < math.inf else None)

    def _group(self, each: _Cluster) -> Grouping:
        members = tuple(sorted(each.members))
        return Grouping(
            cluster=each.number, head=each.head, members=members, quorum=quorum(self.phi, len(members)), damped=self.saa
        )

    def _samples(self, each: _Cluster, server: Server) -> int:
        return sum(server.devices[device].samples for device in each.members if device in server.devices)
