"""The two ends of a channel: a ROUTER that many peers reach, and the DEALER of one peer.

Beside ``testbed.wire.authentication``, the only file that imports zmq. Never make a channel before a fork: a ZeroMQ context does not
survive it.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import zmq

from testbed.common.errors import UserError
from testbed.wire.authentication import Account, Authenticator, show
from testbed.wire.codec import Buffer
from testbed.wire.credentials import AllowList, Credential
from testbed.wire.endpoints import from_here

Incoming: TypeAlias = tuple[str, list[Buffer]]

_QUEUE = 8  # a high-water mark counts messages, not bytes: keep it small
_LINGER_MS = 1000
_RECONNECT_MS, _RECONNECT_MAX_MS = 20, 1000
# plain integers: the enum's | costs more than the call it is for
_MORE, _LAST, _WAIT = int(zmq.NOBLOCK | zmq.SNDMORE), int(zmq.NOBLOCK), 0
_WORTH_SHARING = 1 << 19
"""Smaller frames are copied: that is faster than waking the thread in which pyzmq frees what was shared."""
_NAMELESS = "surrogateescape"
"""A stranger without a routing id is given five raw bytes; they must survive the way to a text and back."""
_MOST_FRAMES = 4
"""That are kept of a message: a routing id, header and vector, and one more to show that it is none of ours."""
_SKIPPED_AT_ONCE = 1000
_OWNER_ONLY = 0o600


class PeerUnreachable(Exception):
    """The transport could not take a message for this peer. Ours, never to be counted as emulated loss."""


def _prepare(socket: zmq.Socket[bytes], endpoint: str, max_bytes: int) -> None:
    socket.setsockopt(zmq.IPV6, int(endpoint.startswith("tcp://[")))
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    socket.setsockopt(zmq.SNDHWM, _QUEUE)
    socket.setsockopt(zmq.RCVHWM, _QUEUE)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)


class _Sender:
    """Sends frames. The last vector is remembered as ZeroMQ holds it: a model that goes to the whole fleet is handed
    over once. Vectors that are sent must not change any more.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._vector: object = None
        self._frame = zmq.Frame()

    def send(self, frames: Sequence[Buffer]) -> None:
        for frame in frames[:-1]:
            self._socket.send(frame, _MORE)
        last = frames[-1]
        if isinstance(last, memoryview):
            if last.obj is not self._vector:
                self._vector, self._frame = last.obj, zmq.Frame(last, copy=len(last) < _WORTH_SHARING)
            self._socket.send(self._frame, _LAST, copy=False)
        else:
            self._socket.send(last, _LAST)


class _Reader:
    """Reads whole messages without copying. ZeroMQ has no limit to the frames of one: what is too many is not kept,
    and skipped a thousand a time, so that whoever reads can do something else meanwhile.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._unfinished = False

    def read(self, flags: int) -> list[Any]:
        """The frames of one message; raises zmq.Again if there is none (in time)."""
        if self._unfinished:
            self._skip()
        frames: list[Any] = []
        more = True
        while more and len(frames) < _MOST_FRAMES:
            frames.append(self._socket.recv(flags, copy=False))
            more = frames[-1].more
        self._unfinished = more
        return frames

    def _skip(self) -> None:
        for _ in range(_SKIPPED_AT_ONCE):
            frame: Any = self._socket.recv(_LAST, copy=False)
            if not frame.more:
                self._unfinished = False
                return
        raise zmq.Again


class Hub:
    """The aggregator's end, or a cluster head's. Vectors are not copied on their way in.

    ``allow``: who may come in, by a badge; others are called strangers. None: everybody is called what he says.
    """

    def __init__(self, endpoint: str, *, max_bytes: int, allow: AllowList | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # ZeroMQ's thread shares the aggregator's core: as a batch task it does not interrupt it for every frame
        self._context.set(zmq.THREAD_SCHED_POLICY, os.SCHED_BATCH)
        self._context.set(zmq.THREAD_PRIORITY, 0)
        self._socket = self._context.socket(zmq.ROUTER)
        _prepare(self._socket, endpoint, max_bytes)
        # without MANDATORY a ROUTER drops silently; without HANDOVER a restarted device is shut out
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._door = Authenticator(self._context, self._socket, allow) if allow is not None else None
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise UserError(
                f"endpoint {endpoint} cannot be opened: {error}; choose another transport.port, or 0 for a free one,"
                " and a transport.host that this machine has"
            ) from None
        if endpoint.startswith("ipc://"):
            Path(endpoint.removeprefix("ipc://")).chmod(_OWNER_ONLY)
        self._sender, self._reader = _Sender(self._socket), _Reader(self._socket)
        self._patience = -1
        bound = self._socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()  # type: ignore[union-attr]
        self.endpoint = from_here(bound)

    @property
    def ear(self) -> zmq.Socket[bytes]:
        return self._socket

    def send(self, peer: str, frames: Sequence[Buffer]) -> None:
        routing = peer if self._door is None else self._door.routing(peer)
        if routing is None:
            raise PeerUnreachable(f"{peer} is nobody to be answered")
        try:
            self._sender.send([routing.encode(errors=_NAMELESS), *frames])
        except zmq.ZMQError as error:
            raise PeerUnreachable(f"{peer}: {error}") from None

    def receive(self, timeout: float) -> Incoming | None:
        """The next message, or None if none comes within ``timeout`` host seconds (resolution: 1 ms), or before that
        if somebody was let in, or a message was no end of frames.
        """
        try:
            if self._door is not None and self._door.encrypts:
                first, *frames = self._read_and_let_in(self._door, timeout)
            else:
                first, *frames = self._read(timeout)
        except zmq.Again:
            return None
        routing = bytes(first.buffer).decode(errors=_NAMELESS)
        peer = routing if self._door is None else self._door.name(routing, first)
        return peer, [frame.buffer for frame in frames]

    def _read(self, timeout: float) -> list[Any]:
        """A blocking receive with a time-out: polling first would cost as much again for each message of a flood."""
        patience = max(0, int(timeout * 1000))
        if patience != self._patience:
            self._socket.setsockopt(zmq.RCVTIMEO, patience)
            self._patience = patience
        return self._reader.read(_WAIT)

    def _read_and_let_in(self, authenticator: Authenticator, timeout: float) -> list[Any]:
        authenticator.look()
        try:
            return self._reader.read(_LAST)
        except zmq.Again:
            authenticator.wait(max(0, int(timeout * 1000)))
            return self._reader.read(_LAST)

    def rejected_connections(self) -> Account:
        """Of connections that came to nothing, since the last time."""
        return self._door.rejected_connections() if self._door is not None else Account()

    def close(self, linger: int = _LINGER_MS) -> None:
        """``linger``: milliseconds for what has not been sent yet."""
        if self._door is not None:
            self._door.close()
        self._socket.close(linger)
        self._context.term()


class Peer:
    """The end of a device or of the evaluator. ``badge``: what tells the hub that it is the one of this name."""

    def __init__(self, endpoint: str, name: str, *, max_bytes: int, credential: Credential | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        _prepare(self._socket, endpoint, max_bytes)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # queue only for a connection that exists
        self._socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        show(self._socket, credential or Credential(id=name))
        self._socket.connect(endpoint)
        self._poller = zmq.Poller()
        self._sender, self._reader = _Sender(self._socket), _Reader(self._socket)

    @property
    def ear(self) -> zmq.Socket[bytes]:
        return self._socket

    def send(self, frames: Sequence[Buffer], timeout: float = 0.0) -> None:
        """Send, waiting up to ``timeout`` host seconds for the connection or for room in the queue."""
        if timeout and not self._socket.poll(int(timeout * 1000), zmq.POLLOUT):
            raise PeerUnreachable(f"the aggregator did not answer within {timeout:g} s")
        try:
            self._sender.send(frames)
        except zmq.ZMQError as error:
            raise PeerUnreachable(str(error)) from None

    def receive(self, timeout: float, beside: int | None = None) -> list[Buffer] | None:
        """The next message, or None if none comes within ``timeout`` host seconds (resolution: 1 ms).

        Returns at once, too, when the file ``beside`` has something to read.
        """
        if timeout > 0:
            self._poller.register(self._socket, zmq.POLLIN)
            if beside is not None:
                self._poller.register(beside, zmq.POLLIN)
            if not self._poller.poll(math.ceil(timeout * 1000) if beside is not None else int(timeout * 1000)):
                return None
        try:
            return [frame.buffer for frame in self._reader.read(_LAST)]
        except zmq.Again:
            return None

    def close(self, linger: int = _LINGER_MS) -> None:
        """``linger``: milliseconds for what has not been sent yet."""
        self._socket.close(linger)
        self._context.term()


def wait_for_any(timeout: float, ends: Sequence[Hub | Peer], beside: int | None = None) -> None:
    """Until somebody has said something at one of the ends, or the file ``beside`` has something to read."""
    poller = zmq.Poller()
    for end in ends:
        poller.register(end.ear, zmq.POLLIN)
    if beside is not None:
        poller.register(beside, zmq.POLLIN)
    poller.poll(max(0, int(timeout * 1000)))


@contextlib.contextmanager
def closing_peer(endpoint: str, name: str, *, max_bytes: int, credential: Credential | None = None) -> Iterator[Peer]:
    peer = Peer(endpoint, name, max_bytes=max_bytes, credential=credential)
    try:
        yield peer
    finally:
        peer.close()
