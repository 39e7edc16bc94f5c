"""What a device says to the aggregator: updates, heartbeats, and the book that it keeps as a cluster head."""

from __future__ import annotations

from msgspec.structs import replace

from devices.cluster.membership import Membership
from devices.device import Device
from testbed.wire.codec import encode
from testbed.wire.messages import MOST_EVENTS, Ask, HeadReport, Heartbeat, Update
from testbed.wire.sockets import Peer, PeerUnreachable


class Outbox:
    """Events travel with updates and heartbeats; they outlast a message that the transport could not take."""

    def __init__(self, peer: Peer, device: Device, cluster: Membership) -> None:
        self._peer, self._device, self._cluster = peer, device, cluster
        self._events: tuple[dict[str, object], ...] = ()
        """That no message has carried yet."""
        self._ledgers: list[HeadReport] = []
        self.trains = 0
        """Train messages that the aggregator has sent: not those of a cluster head."""

    def deliver(self) -> bool:
        """Send what the emulated uplink lets through. What the transport cannot take is tried again."""
        own, relayed = self._device.outbox, self._cluster.outbox
        try:
            while own:
                if not self._cluster.takes(own[0]):
                    self._tell(replace(own[0], events=self._device.take_events()))
                del own[0]
            self._tell_ledgers()
            while relayed:
                self._tell(relayed[0])
                del relayed[0]
        except PeerUnreachable:
            return False
        return True

    def beat(self) -> None:
        try:
            self._tell(self._cluster.for_aggregator(self._device.beat()))
        except PeerUnreachable:
            return  # the aggregator is flooded, or gone; the launcher ends us in the second case

    def last_word(self, state: str) -> None:
        """It carries the events that had not been told yet."""
        self._tell_ledgers(timeout=1.0)
        last = self._cluster.for_aggregator(self._device.beat())
        self._cluster.leave()
        self._events, last = self._events + last.events, replace(last, events=())
        while len(self._events) > MOST_EVENTS:
            self._tell(last, timeout=1.0)
        self._tell(replace(last, state=state), timeout=1.0)

    def _tell(self, message: Update | Ask | Heartbeat, timeout: float = 0.0) -> None:
        self._events += message.events
        told = self._events[:MOST_EVENTS]
        self._peer.send(encode(replace(message, events=told, trains=self.trains)), timeout)
        self._events = self._events[len(told) :]

    def _tell_ledgers(self, timeout: float = 0.0) -> None:
        self._ledgers += self._cluster.ledgers()
        while self._ledgers:
            self._peer.send(encode(self._ledgers[0]), timeout)
            del self._ledgers[0]
