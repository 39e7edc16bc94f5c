"""The second phase of EAFL: cluster heads work on the model and send results (Algorithm 1, lines 13 to 15)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aggregator.strategies.eafl.clustering import Clusters
from aggregator.strategy import Server
from testbed.wire.messages import Update


@dataclass(slots=True, kw_only=True, eq=False)
class Cluster:
    """One cluster: its present members, its head, and the head's result."""

    number: int
    members: set[str]
    head: str = ""
    """Empty: the head has left."""
    due: float = math.inf
    """When the head is replaced; infinity while it has no model to work on."""
    strikes: int = 0
    """How many heads in a row were too slow."""
    result: Update | None = None
    samples: int = 0
    """|D_n| when the result arrived."""

    def present_samples(self, server: Server) -> int:
        """|D_n| of the members that are present."""
        return sum(server.devices[device].samples for device in self.members if device in server.devices)

    def set_deadline(self, now: float, patience: float) -> None:
        """Give the head time for its result: twice as long after each head that was too slow."""
        self.due = now + patience * 2**self.strikes


@dataclass(slots=True, kw_only=True)
class ClusterPhase:
    """The clusters since the last clustering. There is none while no device is present."""

    clusters: list[Cluster] = field(default_factory=list)
    homes: dict[str, int] = field(default_factory=dict)
    """Device → the number of its cluster, whether the device is present or not."""
    iterations: int = 0
    """Global iterations since the clustering."""

    @classmethod
    def begin(cls, found: Clusters, heads: Sequence[str], devices: Iterable[str]) -> ClusterPhase:
        """Make the clusters that were found; devices in none of them go into the smallest one, in order of names."""
        clusters = [
            Cluster(number=number, members=set(members), head=head)
            for number, (members, head) in enumerate(zip(found, heads, strict=True))
        ]
        for device in sorted(set(devices).difference(*found)):
            min(clusters, key=lambda cluster: len(cluster.members)).members.add(device)
        return cls(clusters=clusters, homes={device: each.number for each in clusters for device in each.members})

    # ---- events

    def join(self, device: str) -> Cluster:
        """Add a device to the cluster where it was, or else to the smallest one. Return that cluster."""
        smallest = min(self.clusters, key=lambda cluster: (len(cluster.members), cluster.number))
        home = next((cluster for cluster in self.clusters if cluster.number == self.homes.get(device)), smallest)
        home.members.add(device)
        self.homes[device] = home.number
        return home

    def leave(self, device: str) -> list[Cluster]:
        """Remove a device. Return its cluster, if it has one."""
        changed = [cluster for cluster in self.clusters if device in cluster.members]
        for cluster in changed:
            cluster.members.discard(device)
            cluster.head = "" if cluster.head == device else cluster.head
        return changed

    def headed_by(self, device: str) -> list[Cluster]:
        return [cluster for cluster in self.clusters if cluster.head == device]

    def receive(self, result: Update, server: Server) -> bool:
        """Keep the result of a head. Return False if its device is not a head, or has sent one."""
        for cluster in self.headed_by(result.device):
            if cluster.result is None:
                cluster.result, cluster.samples = result, cluster.present_samples(server)
                cluster.strikes, cluster.due = 0, math.inf
                return True
        return False

    # ---- what follows

    def answered(self) -> list[Cluster]:
        """Return the clusters whose results are here. All of their members may have left since."""
        return [cluster for cluster in self.clusters if cluster.result is not None]

    def drop_empty(self) -> None:
        """Remove the clusters that have neither a member nor a result."""
        self.clusters = [cluster for cluster in self.clusters if cluster.members or cluster.result is not None]

    def samples(self, server: Server) -> int:
        """|D|: the samples of all clusters."""
        return sum(each.present_samples(server) if each.result is None else each.samples for each in self.clusters)

    def replace_heads(self, server: Server, patience: float) -> list[Cluster]:
        """Replace the heads that have left or are too slow. Return the clusters that have a new head."""
        return [cluster for cluster in self.clusters if _replace_head(cluster, server, patience)]

    @property
    def next_deadline(self) -> float:
        return min((cluster.due for cluster in self.clusters), default=math.inf)


def _replace_head(cluster: Cluster, server: Server, patience: float) -> bool:
    """Choose another member at random if the head must be replaced: not while its result waits for other results."""
    overdue = server.now >= cluster.due
    if not cluster.members or cluster.result is not None or (cluster.head and not overdue):
        return False
    cluster.strikes += overdue and bool(cluster.head)
    others = sorted(cluster.members - {cluster.head})
    if not others:  # no other member is left: wait for this one
        cluster.set_deadline(server.now, patience)
        return False
    cluster.head = others[int(server.random.integers(len(others)))]
    return True
