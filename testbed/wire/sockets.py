"""The two ends of a channel: the hub, a ROUTER for many peers, and the DEALER of one peer.

Never open a channel before a fork: a ZeroMQ context does not survive it. Only this file, ``frames``,
``authentication`` and ``connection_monitor`` import zmq.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import zmq

from testbed.common.errors import UserError
from testbed.wire.authentication import Authenticator, set_credential
from testbed.wire.codec import BadMessage, Buffer, unexpected
from testbed.wire.connection_limit import ConnectionLimit
from testbed.wire.connection_monitor import RejectionCounts
from testbed.wire.credentials import AllowList, Credential
from testbed.wire.endpoints import local_address
from testbed.wire.frames import NO_WAIT, WAIT, FrameReader, FrameSender
from testbed.wire.io_thread import IoPolicy

Incoming: TypeAlias = tuple[str, list[Buffer]]

_QUEUE = 8  # a high-water mark counts messages, not bytes: keep it small
_LINGER_MS = 1000
_RECONNECT_MS, _RECONNECT_MAX_MS = 20, 1000
_HANDSHAKE_MS = 10_000
"""ZeroMQ's own limit is 30 seconds. A handshake takes milliseconds, and seconds while a large fleet starts."""
_RAW_BYTES = "surrogateescape"
"""ZeroMQ gives a peer without a routing id five raw bytes; they must survive the conversion to text and back."""
_OWNER_ONLY = 0o600
_BATCH = IoPolicy()
_LONGEST_WAIT = 86_400.0
"""Host seconds: ZeroMQ counts milliseconds in 31 bits. Who waits for longer looks around once a day."""


class PeerUnreachable(Exception):
    """The transport did not accept a message for this peer. A real fault, never counted as emulated loss."""


def _prepare(socket: zmq.Socket[bytes], endpoint: str, max_bytes: int) -> None:
    socket.setsockopt(zmq.IPV6, int(endpoint.startswith("tcp://[")))
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, _QUEUE)
    socket.setsockopt(zmq.RCVHWM, _QUEUE)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)


class Hub:
    """The aggregator's end, or a cluster head's. Received vectors are not copied.

    ``allow``: the credentials that are accepted; other peers are named strangers. None disables authentication: each
    peer has the name that it claims. ``io``: how ZeroMQ's threads are scheduled; None: as the calling thread.
    """

    def __init__(
        self, endpoint: str, *, max_bytes: int, allow: AllowList | None = None, io: IoPolicy | None = _BATCH
    ) -> None:
        if io is not None:
            io.check()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        if io is not None:
            self._context.set(zmq.THREAD_SCHED_POLICY, io.policy)
            self._context.set(zmq.THREAD_PRIORITY, io.priority)
        self.socket = self._context.socket(zmq.ROUTER)
        _prepare(self.socket, endpoint, max_bytes)
        # without MANDATORY a ROUTER drops silently; without HANDOVER a restarted device is shut out
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        limit = None
        if allow is not None and endpoint.startswith("tcp://"):  # only its owner reaches a unix socket
            self.socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
            limit = ConnectionLimit(len(allow.ids), max_bytes)
        self._authenticator = Authenticator(self._context, self.socket, allow, limit) if allow is not None else None
        self._file: Path | None = None
        """The Unix socket, if it is one. ZeroMQ does not remove it."""
        self._bind(endpoint)
        self._sender, self._reader = FrameSender(self.socket), FrameReader(self.socket)
        self._timeout_ms = -1
        bound = self.socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()  # type: ignore[union-attr]
        self.endpoint = local_address(bound)

    def _bind(self, endpoint: str) -> None:
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UserError(
                f"endpoint {endpoint} cannot be opened: {error}; choose another transport.port, or 0 for a free one,"
                " and a transport.host that this machine has"
            ) from None
        if endpoint.startswith("ipc://"):
            self._file = Path(endpoint.removeprefix("ipc://"))
            self._file.chmod(_OWNER_ONLY)

    def send(self, peer: str, frames: Sequence[Buffer]) -> None:
        """Send a message. Raises PeerUnreachable if the peer is not connected or its queue is full."""
        routing = peer if self._authenticator is None else self._authenticator.routing_id(peer)
        if routing is None:
            raise PeerUnreachable(f"{peer} has no routing id of its own, so it gets no answer")
        try:
            self._sender.send(routing.encode(errors=_RAW_BYTES), *frames)
        except zmq.ZMQError as error:
            raise PeerUnreachable(f"{peer}: {error}") from None

    def has_unread(self) -> bool:
        """Whether a message has arrived and was not received."""
        return bool(int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def receive(self, timeout: float) -> Incoming | None:
        """The next message, or None if none arrives within ``timeout`` host seconds (resolution: 1 ms).

        Also returns None, before the timeout, after a peer was authenticated or surplus frames were dropped. Raises
        BadMessage if its sender cannot be told.
        """
        try:
            if self._authenticator is not None and self._authenticator.answers_zap:
                first, *frames = self._read_and_authenticate(self._authenticator, timeout)
            else:
                first, *frames = self._read(timeout)
        except zmq.Again:
            return None
        routing = first.bytes.decode(errors=_RAW_BYTES)
        try:
            peer = routing if self._authenticator is None else self._authenticator.peer_name(routing, first)
        except Exception as problem:
            raise BadMessage(unexpected(problem)) from problem
        return peer, [frame.buffer for frame in frames]

    def _read(self, timeout: float) -> list[Any]:
        """A blocking receive with a timeout: polling first would double the cost of each message."""
        timeout_ms = _milliseconds(timeout)
        if timeout_ms != self._timeout_ms:
            self.socket.setsockopt(zmq.RCVTIMEO, timeout_ms)
            self._timeout_ms = timeout_ms
        return self._reader.read(WAIT)

    def _read_and_authenticate(self, authenticator: Authenticator, timeout: float) -> list[Any]:
        authenticator.answer_zap_sometimes()
        try:
            return self._reader.read(NO_WAIT)
        except zmq.Again:
            authenticator.wait(_milliseconds(timeout))
            return self._reader.read(NO_WAIT)

    def rejected_connections(self) -> RejectionCounts:
        """The connections that were rejected or cut off since the last call."""
        return self._authenticator.rejected_connections() if self._authenticator is not None else RejectionCounts()

    def close(self, linger: int = _LINGER_MS) -> None:
        """Close the socket; ``linger``: milliseconds to wait for messages that are still queued."""
        if self._authenticator is not None:
            self._authenticator.close()
        self.socket.close(linger)
        self._context.term()
        if self._file is not None:  # cluster heads change during a run, and each has a socket
            self._file.unlink(missing_ok=True)


class Peer:
    """The end of a device, a canary or the evaluator. ``credential`` proves its name to the hub."""

    def __init__(self, endpoint: str, name: str, *, max_bytes: int, credential: Credential | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        _prepare(self.socket, endpoint, max_bytes)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)  # queue only for a connection that exists
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        set_credential(self.socket, credential or Credential(id=name))
        self.socket.connect(endpoint)
        self._poller = zmq.Poller()
        self._poller.register(self.socket, zmq.POLLIN)
        self._sender, self._reader = FrameSender(self.socket), FrameReader(self.socket)
        self._timeout_ms = -1

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        """Send a message, waiting up to ``timeout`` host seconds for the connection or for space in the queue.

        Raises PeerUnreachable if it cannot be sent.
        """
        if timeout and not self.socket.poll(_milliseconds(timeout), zmq.POLLOUT):
            raise PeerUnreachable(f"the aggregator did not answer within {timeout:g} s")
        try:
            self._sender.send(*frames)
        except zmq.ZMQError as error:
            raise PeerUnreachable(str(error)) from None

    def receive(self, timeout: float, file: int | None = None) -> list[Buffer] | None:
        """The next message, or None if none arrives within ``timeout`` host seconds (resolution: 1 ms).

        Also returns when the file descriptor ``file`` is readable.
        """
        wait = NO_WAIT
        if timeout > 0 and file is not None:
            self._poller.register(file, zmq.POLLIN)
            self._poller.poll(math.ceil(min(timeout, _LONGEST_WAIT) * 1000))
        elif timeout > 0:
            wait = self._wait_at_most(_milliseconds(timeout))
        if wait == NO_WAIT and not self._reader.has_message:
            return None  # found out without an exception: that would cost three times as much
        try:
            return [frame.buffer for frame in self._reader.read(wait)]
        except zmq.Again:
            return None

    def _wait_at_most(self, milliseconds: int) -> int:
        """Set the timeout of a blocking receive, which costs half as much as polling first. Returns its flags."""
        if milliseconds != self._timeout_ms:
            self.socket.setsockopt(zmq.RCVTIMEO, milliseconds)
            self._timeout_ms = milliseconds
        return WAIT

    def close(self, linger: int = _LINGER_MS) -> None:
        """Close the socket; ``linger``: milliseconds to wait for messages that are still queued."""
        self.socket.close(linger)
        self._context.term()


def wait_for_any(timeout: float, ends: Sequence[Hub | Peer], file: int | None = None) -> None:
    """Wait until one of the ends has a message, the file descriptor ``file`` is readable, or the timeout is over."""
    poller = zmq.Poller()
    for end in ends:
        poller.register(end.socket, zmq.POLLIN)
    if file is not None:
        poller.register(file, zmq.POLLIN)
    poller.poll(_milliseconds(timeout))


def _milliseconds(timeout: float) -> int:
    """A timeout as ZeroMQ accepts it."""
    return max(0, int(min(timeout, _LONGEST_WAIT) * 1000))


@contextlib.contextmanager
def closing_peer(endpoint: str, name: str, *, max_bytes: int, credential: Credential | None = None) -> Iterator[Peer]:
    peer = Peer(endpoint, name, max_bytes=max_bytes, credential=credential)
    try:
        yield peer
    finally:
        peer.close()
