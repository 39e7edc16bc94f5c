"""Messages with descriptors between two processes of one run, over a pair of connected Unix sockets.

A message is a msgspec struct: four bytes of length, then msgpack. Descriptors travel with the length (SCM_RIGHTS).
"""

from __future__ import annotations

import math
import os
import select
import socket
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Generic, TypeVar

import msgspec

_LENGTH_BYTES = 4
_MOST_DESCRIPTORS = 250
"""The kernel passes at most 253 at once."""

Received = TypeVar("Received")


class Channel(Generic[Received]):
    """One end of a connection. It receives messages of one type, which may be a union of tagged structs."""

    def __init__(self, end: socket.socket, received: type[Received] | UnionType) -> None:
        self._socket = end
        self._decoder: msgspec.msgpack.Decoder[Received] = msgspec.msgpack.Decoder(received)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        """Send a message. Raises OSError if the other end is closed."""
        body = msgspec.msgpack.encode(message)
        socket.send_fds(self._socket, [len(body).to_bytes(_LENGTH_BYTES, "big")], list(descriptors))
        self._socket.sendall(body)

    def receive(self) -> tuple[Received, list[int]]:
        """Wait for a message and its descriptors. Raises EOFError if the other end is closed."""
        try:
            length, descriptors = receive_descriptors(self._socket, _LENGTH_BYTES, _MOST_DESCRIPTORS)
            body = self._exactly(int.from_bytes(length, "big")) if len(length) == _LENGTH_BYTES else b""
        except ConnectionResetError:  # the other end died before it had read everything
            raise EOFError from None
        if not body:
            close_all(descriptors)
            raise EOFError
        return self._decoder.decode(body), descriptors

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


def receive_descriptors(end: socket.socket, count: int, most: int) -> tuple[bytes, list[int]]:
    """Receive up to ``count`` bytes, and the descriptors that came with them, which no other program inherits.

    (``socket.recv_fds`` ignores its flags before Python 3.12, so MSG_CMSG_CLOEXEC would have no effect.)
    """
    text, descriptors, _, _ = socket.recv_fds(end, count, most)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return text, descriptors


def close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def readable(descriptors: Iterable[int], seconds: float | None = None) -> set[int]:
    """Wait until one of these can be read or is closed. Returns those that can; empty if the time is over."""
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    milliseconds = None if seconds is None else math.ceil(max(0.0, seconds) * 1000)
    return {descriptor for descriptor, _ in waiting.poll(milliseconds)}
