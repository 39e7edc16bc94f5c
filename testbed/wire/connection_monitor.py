"""Follows the connections of a hub by ZeroMQ's socket monitor, and counts those that were rejected or cut off.

There is no thread here: the hub calls ``read`` when it waits, and at the latest during housekeeping.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection

import zmq

from testbed.common.clock import WallClock
from testbed.wire.connection_limit import ConnectionLimit

STRANGER, IMPOSTOR = "stranger/", "impostor/"
"""Prefixes of the names of unknown peers. The name of a device contains no slash."""
CUT_OFF = "its connection was cut off: a frame was too large, or another connection claimed its id"
_BAD_KEY = "a key that is not on the list"
_NO_KEY = "a handshake without a key of this run"
_NO_HANDSHAKE = "a handshake that failed"
_SILENT = "a connection that ended without a message"

_MONITOR = "inproc://monitor"
_NO_WAIT = int(zmq.NOBLOCK)
_BAD_KEY_EVENT = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_OTHER_FAILURES = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
_DISCONNECTED, _ACCEPTED = int(zmq.EVENT_DISCONNECTED), int(zmq.EVENT_ACCEPTED)
_LISTENING = int(zmq.EVENT_LISTENING)
_AT_ONCE = 1000
"""The most events that one call handles: a flood of connections must not block the hub."""

RejectionCounts = Counter[tuple[str, str]]
"""Peer and reason → how often."""


class ConnectionMonitor:
    """Follows the connections of one socket. Create it before the socket is bound.

    ``names`` are those of the known peers. ``limit`` counts connections; None if strangers cannot reach the socket.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        names: Collection[str],
        limit: ConnectionLimit | None,
        *,
        has_keys: bool,
    ) -> None:
        self._socket, self._names, self._limit = socket, names, limit
        self._clock = WallClock(0.0)
        self._failure = _NO_KEY if has_keys else _NO_HANDSHAKE
        wanted = _BAD_KEY_EVENT | _OTHER_FAILURES | _DISCONNECTED
        socket.monitor(_MONITOR, wanted if limit is None else wanted | _ACCEPTED | _LISTENING)
        self.events = context.socket(zmq.PAIR)
        """Readable when ``read`` finds something."""
        self.events.setsockopt(zmq.RCVHWM, 0)  # a full queue would block ZeroMQ's own thread
        self.events.connect(_MONITOR)
        self.senders: dict[int, str] = {}
        """Descriptor of a connection → the peer that sent something through it."""
        self._bad_keys = 0
        """Connections with a bad key that have not ended yet, and are counted."""
        self._why = ""
        """Why the handshake of the connection failed whose end ZeroMQ reports next."""
        self._rejections: RejectionCounts = Counter()

    def close(self) -> None:
        """Call it before the socket is closed, or ZeroMQ's thread would block forever."""
        self._socket.disable_monitor()
        self.events.close(0)

    # ---- senders

    def note_sender(self, connection: int, peer: str) -> None:
        """Note that a peer has sent something through a connection, as the first one or instead of another."""
        self.read()  # an ended connection may have had the same descriptor
        self.senders[connection] = peer
        if self._limit is not None and peer in self._names:
            self._limit.proved(connection)

    def connections_of(self, name: str) -> list[int]:
        return [number for number, who in self.senders.items() if who == name]

    def displace(self, connection: int, name: str) -> None:
        """Note that ZeroMQ gave the id of ``name`` to another connection. It does not report the end of this one."""
        self.senders[connection] = STRANGER
        if self._limit is not None:
            self._limit.ended(connection)
        self._rejections[name, CUT_OFF] += 1

    # ---- events

    @property
    def wakes_in(self) -> float | None:
        """Host seconds until ``read`` is wanted although there may be no event; None: it is not."""
        return None if self._limit is None else self._limit.wakes_in

    def rejected_connections(self) -> RejectionCounts:
        """Failed handshakes, connections without a message, and known peers that were cut off, since the last call."""
        self.read()
        counts, self._rejections = self._rejections, Counter()
        return counts

    def read(self) -> None:
        """Read what ZeroMQ reports, and enforce the limit on connections."""
        receive, now = self.events.recv_multipart, self._clock.now()
        for _ in range(_AT_ONCE):
            try:
                head, _endpoint = receive(_NO_WAIT)
            except zmq.Again:
                break
            event, value = struct.unpack("=Hi", head)
            self._note(event, value, now)
        if self._limit is not None and (len(self._limit) or self._limit.paused):
            self._limit.enforce(now)

    def _note(self, event: int, value: int, now: float) -> None:
        if event == _DISCONNECTED:
            self._note_end(value)
        elif event == _BAD_KEY_EVENT:
            self._bad_keys += 1
            self._rejections[STRANGER, _BAD_KEY] += 1
        elif event & _OTHER_FAILURES:
            self._why = self._failure  # ZeroMQ reports the end of this connection next
        elif self._limit is not None and event == _ACCEPTED:
            self.senders.pop(value, None)  # if its first message was read before this event, the next proves it
            self._limit.accepted(value, now)
        elif self._limit is not None and event == _LISTENING:
            self._limit.listens(value)

    def _note_end(self, connection: int) -> None:
        why, self._why = self._why, ""
        if self._limit is not None:
            why = self._limit.ended(connection) or why
        sender = self.senders.pop(connection, None)
        if sender is not None and sender in self._names:
            self._rejections[sender, CUT_OFF] += 1
        elif sender is None and not why and self._bad_keys:
            self._bad_keys -= 1
        elif sender is None or why:
            self._rejections[STRANGER, why or _SILENT] += 1
