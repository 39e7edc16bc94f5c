"""Connections in memory: what a head sends to a member, or a member to its head, is there at once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from devices.cluster.message_ends import FromPeer
from testbed.wire.messages import Message


class MessageList:
    """Keeps what a device sends to the aggregator, until the loop takes it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message, timeout: float = 0.0) -> None:
        self.messages.append(message)

    def take(self) -> list[Message]:
        """Return the messages since the last call."""
        taken, self.messages = self.messages, []
        return taken


class _Cluster:
    """The connections of one ticket range. ``head`` is the name of the device that has opened it."""

    def __init__(self) -> None:
        self.head = ""
        self.to_head: deque[FromPeer] = deque()
        self.to_members: defaultdict[str, list[Message]] = defaultdict(list)


class MemoryHeadEnd:
    """The end of a head. ``wake`` is called with a device that has got a message."""

    def __init__(self, cluster: _Cluster, wake: Callable[[str], None]) -> None:
        self._cluster, self._wake = cluster, wake

    def send(self, device: str, message: Message) -> None:
        self._cluster.to_members[device].append(message)
        self._wake(device)

    def receive(self) -> FromPeer | None:
        waiting = self._cluster.to_head
        return waiting.popleft() if waiting else None

    def close(self) -> None:
        self._cluster.head = ""


class MemoryMemberEnd:
    """The end of a member. What it sends before the head has opened its end waits there."""

    def __init__(self, cluster: _Cluster, device: str, wake: Callable[[str], None]) -> None:
        self._cluster, self._device, self._wake = cluster, device, wake

    def send(self, message: Message, timeout: float = 0.0) -> None:
        self._cluster.to_head.append((self._device, message))
        if self._cluster.head:
            self._wake(self._cluster.head)

    def receive(self) -> Sequence[Message]:
        return self._cluster.to_members.pop(self._device, ())

    def close(self) -> None:
        self._cluster.to_members.pop(self._device, None)


class MemoryClusters:
    """The connections of all clusters of a run."""

    def __init__(self, wake: Callable[[str], None]) -> None:
        """``wake`` is called with a device that has got a message."""
        self._wake = wake
        self._clusters: defaultdict[int, _Cluster] = defaultdict(_Cluster)

    def of(self, device: str) -> DeviceLinks:
        """Return what opens the connections of one device."""
        return DeviceLinks(self, device)

    def open(self, ticket_range: int, head: str) -> MemoryHeadEnd:
        cluster = self._clusters[ticket_range]
        cluster.head = head
        if cluster.to_head:
            self._wake(head)
        return MemoryHeadEnd(cluster, self._wake)

    def connect(self, ticket_range: int, device: str) -> MemoryMemberEnd:
        return MemoryMemberEnd(self._clusters[ticket_range], device, self._wake)


class DeviceLinks:
    """The connections of one device to clusters."""

    def __init__(self, clusters: MemoryClusters, device: str) -> None:
        self._clusters, self._device = clusters, device

    def open(self, ticket_range: int) -> MemoryHeadEnd:
        return self._clusters.open(ticket_range, self._device)

    def connect(self, ticket_range: int, device: str) -> MemoryMemberEnd:
        return self._clusters.connect(ticket_range, device)
