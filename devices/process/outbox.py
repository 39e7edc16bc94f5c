"""The messages of a device to the aggregator: updates, heartbeats, and the head reports of a cluster head."""

from __future__ import annotations

import math

from msgspec.structs import replace

from devices.cluster.membership import Membership
from devices.cluster.message_ends import Sender
from devices.device import Device
from testbed.history.trace import DeviceEvent
from testbed.wire.messages import MOST_EVENTS, Ask, HeadReport, Heartbeat, Update
from testbed.wire.sockets import PeerUnreachable


class Outbox:
    """Sends updates and heartbeats with the events of the device. Events that could not be sent are kept."""

    def __init__(self, peer: Sender, device: Device, cluster: Membership) -> None:
        self._peer, self._device, self._cluster = peer, device, cluster
        self._events: tuple[DeviceEvent, ...] = ()
        """The events that no message has carried yet."""
        self._head_reports: list[HeadReport] = []
        self.last_update = -math.inf
        """When this device sent its last update or request to the aggregator."""
        self.trains = 0
        """Train messages from the aggregator that have arrived or are lost, without those from a cluster head."""

    def deliver(self, now: float) -> bool:
        """Send what the emulated uplink lets through. Return False if the transport refuses: then call it again."""
        own, relayed = self._device.outbox, self._cluster.outbox
        try:
            while own:
                if not self._cluster.intercept(own[0]):
                    self._events += self._device.take_events()
                    self._send(own[0])
                    self.last_update = now
                del own[0]
            self._send_head_reports()
            while relayed:
                self._send(relayed[0])
                del relayed[0]
        except PeerUnreachable:
            return False
        return True

    def send_heartbeat(self, now: float) -> None:
        """Send a heartbeat of this moment, unless the transport refuses."""
        try:
            self._send(self._cluster.for_aggregator(self._device.heartbeat(now)))
        except PeerUnreachable:
            return  # the aggregator is overloaded, or gone; in the second case the launcher ends this process

    def send_last_heartbeat(self, state: str) -> None:
        """Send everything that is left; the last message is a heartbeat with ``state``."""
        self._send_head_reports(timeout=1.0)
        last = self._cluster.for_aggregator(self._device.heartbeat())
        self._cluster.leave()
        self._events, last = self._events + last.events, replace(last, events=())
        while len(self._events) > MOST_EVENTS:
            self._send(last, timeout=1.0)
        self._send(replace(last, state=state), timeout=1.0)

    def _send(self, message: Update | Ask | Heartbeat, timeout: float = 0.0) -> None:
        self._events += message.events
        events = self._events[:MOST_EVENTS]
        self._peer.send(replace(message, events=events, trains=self.trains), timeout)
        self._events = self._events[len(events) :]

    def _send_head_reports(self, timeout: float = 0.0) -> None:
        self._head_reports += self._cluster.head_reports()
        while self._head_reports:
            self._peer.send(self._head_reports[0], timeout)
            del self._head_reports[0]
