"""The two ends of a channel: a ROUTER that many peers reach, and the DEALER of one peer.

The only file that imports zmq. Never make a channel before a fork: a ZeroMQ context does not survive it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import zmq

from testbed.errors import UserError
from testbed.wire import Buffer

Incoming: TypeAlias = tuple[str, list[Buffer]]

_QUEUE = 8  # a high-water mark counts messages, not bytes: keep it small
_LINGER_MS = 1000
_RECONNECT_MS, _RECONNECT_MAX_MS = 20, 1000


class Unreachable(Exception):
    """The transport could not take a message for this peer. Ours, never to be counted as emulated loss."""


def _prepare(socket: zmq.Socket[bytes], max_bytes: int) -> None:
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, _QUEUE)
    socket.setsockopt(zmq.RCVHWM, _QUEUE)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)


def _send(socket: zmq.Socket[bytes], frames: Sequence[Buffer]) -> None:
    socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=False)


class Hub:
    """The aggregator's end. Receives in batches without copying the vectors."""

    def __init__(self, endpoint: str, *, max_bytes: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        _prepare(self._socket, max_bytes)
        # without MANDATORY a ROUTER drops silently; without HANDOVER a restarted device is shut out
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UserError(
                f"endpoint {endpoint} cannot be opened: {error}; choose another transport.port, or 0 for a free one"
            ) from None
        self.endpoint = self._socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()  # type: ignore[union-attr]

    def send(self, peer: str, frames: Sequence[Buffer]) -> None:
        try:
            _send(self._socket, [peer.encode(), *frames])
        except zmq.ZMQError as error:
            raise Unreachable(f"{peer}: {error}") from None

    def receive(self, timeout: float, at_most: int = 256) -> Iterator[Incoming]:
        """Messages that are there, waiting up to ``timeout`` host seconds for the first."""
        if not self._socket.poll(max(0, int(timeout * 1000))):
            return
        for _ in range(at_most):
            try:
                parts: list[Any] = self._socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            yield parts[0].bytes.decode("utf-8", "replace"), [part.buffer for part in parts[1:]]

    def close(self) -> None:
        self._socket.close()
        self._context.term()


class Peer:
    """The end of a device or of the evaluator."""

    def __init__(self, endpoint: str, name: str, *, max_bytes: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        _prepare(self._socket, max_bytes)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # queue only for a connection that exists
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        self._socket.setsockopt(zmq.ROUTING_ID, name.encode())
        self._socket.connect(endpoint)

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        """Send, waiting up to ``timeout`` host seconds for the connection or for room in the queue."""
        if timeout and not self._socket.poll(int(timeout * 1000), zmq.POLLOUT):
            raise Unreachable(f"the aggregator did not answer within {timeout:g} s")
        try:
            _send(self._socket, frames)
        except zmq.ZMQError as error:
            raise Unreachable(str(error)) from None

    def receive(self, timeout: float) -> list[Buffer] | None:
        """The next message, or None if none comes within ``timeout`` host seconds (resolution: 1 ms)."""
        if timeout > 0 and not self._socket.poll(int(timeout * 1000)):
            return None
        try:
            parts: list[Any] = self._socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        return [part.buffer for part in parts]

    def close(self) -> None:
        self._socket.close()
        self._context.term()


@contextlib.contextmanager
def closing_peer(endpoint: str, name: str, *, max_bytes: int) -> Iterator[Peer]:
    peer = Peer(endpoint, name, max_bytes=max_bytes)
    try:
        yield peer
    finally:
        peer.close()
