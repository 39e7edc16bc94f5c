"""Limits the connections of strangers over TCP: how many are open at once, and how many bytes they may have sent.

Theory of operation (ADR 18)
    ZeroMQ accepts every connection, and reads a frame of any length up to the largest that is allowed before it knows
    who sends it. Without a free descriptor it tries to accept again and again (130,000 times a second), and nothing
    else in this process can open a file. It offers no limit of its own. So this file acts beside ZeroMQ, on the
    descriptors that its monitor reports: it asks the kernel how much a connection has sent, shuts it down, and pauses
    the listener. A paused listener has a socket filter that drops every packet: peers that connect meanwhile try again
    a second later, and the port stays ours.
    A connection is unproven until a known peer has sent a message through it. Half of the descriptors that the fleet
    does not need may be unproven connections. The other half is a reserve, for files of our own and for what is
    accepted until the limit is enforced. A legitimate peer is unproven for a moment only, so each one that has no
    connection adds one to the limit on connections, and one message to the limit on bytes.
    The number of a descriptor may be reused at any moment. So the inode is compared before a connection is shut down;
    if the wrong one is shut down all the same, its peer connects again. Other files cannot be shut down.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import socket as socketlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

TOO_MANY = "a connection beyond the limit on unknown peers"
TOO_LONG = "a connection that sent too much before it was known"

_MOST_UNPROVEN = 512
_PATIENCE_SECONDS = 1.0
"""A connection that is younger is not shut down for its number: a handshake takes milliseconds, and a crowded host."""
_LOOK_SECONDS = 0.02
"""Host seconds between two looks at the bytes of unproven connections."""
_MOST_BYTES = 32 << 20
"""Bytes that all unproven connections together may have sent."""
_SMALL_BYTES = 1 << 16
"""A handshake has less than a kilobyte. Connections that have sent less than this are not shut down for their bytes."""
_HEADER_BYTES = 1 << 20
_FILES_OF_OUR_OWN = 64

_TCP_INFO_BYTES, _RECEIVED_AT = 192, 128
"""Size of struct tcp_info up to the fields used here, and the place of tcpi_bytes_received (Linux 4.1)."""
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_DROP_ALL = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))
"""A socket filter of one instruction: return 0 bytes."""


@dataclass(slots=True)
class _Unproven:
    since: float
    inode: int | None
    shut: str = ""
    """Why it was shut down."""


class ConnectionLimit:
    """Knows the open connections of one TCP listener that no known peer has used. ``now`` is in host seconds.

    ``peers``: of the run; ``max_bytes``: of a frame.
    """

    def __init__(self, peers: int, max_bytes: int) -> None:
        self._peers, self._max_bytes = peers, max_bytes
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            files = 1 << 20
        # a known peer has its connection and the descriptor by which its process is watched
        free = files - _FILES_OF_OUR_OWN - 2 * peers
        self.most = max(1, min(_MOST_UNPROVEN, free // 2))
        """Unproven connections, beside one for each peer that has none."""
        self._unproven: dict[int, _Unproven] = {}
        """By descriptor, the oldest first."""
        self._proven: set[int] = set()
        self._listener: int | None = None
        self.paused = False
        self._look_at = 0.0

    def __len__(self) -> int:
        return len(self._unproven)

    # ---- what the monitor reports

    def listens(self, number: int) -> None:
        self._listener = number

    def accepted(self, number: int, now: float) -> None:
        self.ended(number)  # an earlier one with this descriptor, whose end ZeroMQ did not report
        self._unproven[number] = _Unproven(now, _inode(number))

    def proved(self, number: int) -> None:
        """A known peer has sent a message through this connection."""
        self._unproven.pop(number, None)
        self._proven.add(number)

    def ended(self, number: int) -> str:
        """Return why the connection was shut down; empty if that was not done here."""
        self._proven.discard(number)
        known = self._unproven.pop(number, None)
        return "" if known is None else known.shut

    # ---- limits

    def enforce(self, now: float) -> None:
        """Shut down what is beyond the limits, and let a paused listener continue when there is room again."""
        missing = max(0, self._peers - len(self._proven))
        most, few = self.most + missing, (self.most + missing) // 2
        if len(self._unproven) > most and not self.paused:
            self._pause(True)
        if self.paused and len(self._unproven) <= few:
            self._pause(False)
        if self.paused or len(self._unproven) > most:
            for number, known in [*self._unproven.items()][: len(self._unproven) - few]:
                if not self.paused or now - known.since > _PATIENCE_SECONDS:
                    self._shut_down(number, known, TOO_MANY)
        if now >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            self._limit_bytes(_MOST_BYTES + missing * self._max_bytes)

    @property
    def wakes_in(self) -> float | None:
        """Host seconds until ``enforce`` is wanted; None: when the monitor reports something."""
        return _LOOK_SECONDS if self._unproven else None

    def _limit_bytes(self, together: int) -> None:
        sent = {number: _bytes_received(number) for number in self._unproven}
        total = sum(sent.values())
        for number, amount in sent.items():
            if amount > self._max_bytes + _HEADER_BYTES or (total > together and amount > _SMALL_BYTES):
                self._shut_down(number, self._unproven[number], TOO_LONG)
                total -= amount

    def _shut_down(self, number: int, known: _Unproven, why: str) -> None:
        if known.shut:
            return
        if known.inode is None or known.inode != _inode(number):
            del self._unproven[number]  # it has ended, and ZeroMQ has not reported it
            return
        known.shut = why
        shut_down(number)

    def _pause(self, pause: bool) -> None:
        """Pause the listener, or let it continue. Where the kernel cannot, nothing happens."""
        if self._listener is None:
            return
        program = struct.pack("HL", 1, ctypes.addressof(_DROP_ALL))
        with contextlib.suppress(OSError), _borrowed(self._listener) as listener:
            if pause:
                listener.setsockopt(socketlib.SOL_SOCKET, _SO_ATTACH_FILTER, program)
            else:
                listener.setsockopt(socketlib.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            self.paused = pause


def shut_down(number: int) -> None:
    """End the connection with this descriptor, which ZeroMQ owns and closes. It may have ended."""
    with contextlib.suppress(OSError), _borrowed(number) as connection:
        connection.shutdown(socketlib.SHUT_RDWR)


@contextlib.contextmanager
def _borrowed(number: int) -> Iterator[socketlib.socket]:
    """A socket of another owner. It needs no descriptor of its own: there may be none."""
    connection = socketlib.socket(fileno=number)
    try:
        yield connection
    finally:
        connection.detach()


def _inode(number: int) -> int | None:
    try:
        return os.fstat(number).st_ino
    except OSError:
        return None


def _bytes_received(number: int) -> int:
    """Bytes that have arrived through a TCP connection, also those that were not read yet; 0 if it has ended."""
    try:
        with _borrowed(number) as connection:
            info = connection.getsockopt(socketlib.IPPROTO_TCP, socketlib.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return 0
    received: int = struct.unpack_from("=Q", info, _RECEIVED_AT)[0] if len(info) >= _RECEIVED_AT + 8 else 0
    return received
