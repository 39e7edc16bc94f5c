"""Authenticates the peers of a hub by id and key, and counts the connections that were rejected or cut off.

There is no thread here: the hub calls the authenticator whenever it receives. It answers the requests of ZeroMQ's
authentication protocol (ZAP) and reads the events of a socket monitor.
"""

from __future__ import annotations

import contextlib
import os
import socket as socketlib
from collections import Counter
from typing import Any

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from testbed.common.errors import UserError
from testbed.wire.credentials import AllowList, Credential, KeyPair

STRANGER, IMPOSTOR = "stranger/", "impostor/"
"""Prefixes of the names of unknown peers. The name of a device contains no slash."""
CUT_OFF = "its connection was cut off: a frame was too large, or another connection claimed its id"
_BAD_KEY = "a key that is not on the list"
_NO_KEY = "a handshake without a key of this run"
_NO_HANDSHAKE = "a handshake that failed"
_SILENT = "a connection that ended without a message"

_ZAP = "inproc://zeromq.zap.01"
_MONITOR = "inproc://authenticator"
_NO_WAIT = int(zmq.NOBLOCK)
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
_AT_ONCE = 200
"""The most requests or events that one call handles: a flood of connections must not block the hub."""
_EVERY = 32
"""Messages between two checks for requests, while messages keep arriving."""

RejectionCounts = Counter[tuple[str, str]]
"""Peer and reason → how often."""


def new_key_pair() -> KeyPair:
    """A key pair for one end of an encrypted channel. Raises UserError if ZeroMQ was built without CURVE."""
    try:
        return zmq.curve_keypair()
    except zmq.ZMQError as error:
        raise UserError(f"transport.encrypt needs CURVE: {error}; install pyzmq from its wheel, which has it") from None


class Authenticator:
    """Authenticates the peers of one hub. Create it before the hub is bound.

    Without a secret key in ``allow`` nothing is encrypted, and peers are known by their ids only.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], allow: AllowList) -> None:
        self._names, self._ids = dict(allow.ids), {name: credential for credential, name in allow.ids.items()}
        self._keys = {z85.decode(key): name.encode() for key, name in allow.keys.items()}
        self._socket = socket
        self._zap: zmq.Socket[bytes] | None = None
        self._poller = zmq.Poller()
        if allow.secret is not None:
            # before the first connection: without a ZAP handler, CURVE accepts any key
            self._zap = context.socket(zmq.REP)
            self._zap.setsockopt(zmq.LINGER, 0)
            self._zap.bind(_ZAP)
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, allow.secret)
            socket.setsockopt(zmq.ZAP_DOMAIN, b"edgebed")
            self._poller.register(self._zap, zmq.POLLIN)
            self._poller.register(socket, zmq.POLLIN)
        self._until_check = _EVERY
        socket.monitor(_MONITOR, _FAILED | zmq.EVENT_DISCONNECTED)
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.RCVHWM, 0)  # a full queue would block ZeroMQ's own thread
        self._monitor.connect(_MONITOR)
        self._senders: dict[int, str] = {}
        """File descriptor of a connection → the peer that sent something through it."""
        self._failed = 0
        """Failed handshakes whose connections have not ended yet."""
        self._rejections: RejectionCounts = Counter()

    @property
    def encrypts(self) -> bool:
        return self._zap is not None

    def close(self) -> None:
        """Close the monitor. Call it before the socket is closed, or ZeroMQ's thread would block forever."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        if self._zap is not None:
            self._zap.close(0)

    # ---- names

    def peer_name(self, routing: str, frame: Any) -> str:
        """The name of the peer that sent ``frame`` under a routing id; one with a prefix if the peer is unknown.

        The key is checked for each message: that costs 1.5 µs, and the id may belong to another connection by now.
        """
        name = self._names.get(routing)
        if name is None:
            peer = f"{STRANGER}{routing}"
        elif self._zap is not None and (owner := frame.get("User-Id")) != name:
            peer = f"{IMPOSTOR}{owner} as {name}"
        else:
            peer = name
        connection = frame.get(zmq.SRCFD)
        if self._senders.get(connection) != peer:
            self._read_monitor()  # an ended connection may have had the same descriptor
            self._senders[connection] = peer
            if name is not None:
                self._handle_replaced(name, connection, give_back=peer != name)
        return peer

    def _handle_replaced(self, name: str, connection: int, *, give_back: bool) -> None:
        """Handle older connections of ``name``: ZeroMQ gave their id to the new one, and does not report their end.

        ``give_back``: the new connection has another peer's key. Then close the old connection, so that its owner
        reconnects and gets the id back.
        """
        for old in [number for number, who in self._senders.items() if who == name and number != connection]:
            if give_back:
                _shut_down(old)
            else:
                self._senders[old] = STRANGER
                self._rejections[name, CUT_OFF] += 1

    def routing_id(self, peer: str) -> str | None:
        """The id to send an answer to; None for an impostor, since the answer would reach the owner of the id."""
        if peer.startswith(STRANGER):
            return peer.removeprefix(STRANGER)
        return self._ids.get(peer)

    # ---- keys

    def wait(self, milliseconds: int) -> None:
        """Wait until there is a message or a ZAP request, and answer requests."""
        self._poller.poll(milliseconds)
        self.answer_zap()

    def answer_zap_sometimes(self) -> None:
        """Answer ZAP requests once in 32 calls: called for each message while messages keep arriving."""
        self._until_check -= 1
        if self._until_check <= 0:
            self.answer_zap()

    def answer_zap(self) -> None:
        """Accept or reject the keys of new connections (ZAP, https://rfc.zeromq.org/spec/27)."""
        self._until_check = _EVERY
        if self._zap is None:
            return
        for _ in range(_AT_ONCE):
            try:
                version, request, _, _, _, mechanism, *keys = self._zap.recv_multipart(_NO_WAIT)
            except zmq.Again:
                return
            name = self._keys.get(keys[0]) if mechanism == b"CURVE" and keys else None
            verdict = [b"400", b"unknown key", b""] if name is None else [b"200", b"", name]
            self._zap.send_multipart([version, request, *verdict, b""])

    # ---- rejected connections

    def rejected_connections(self) -> RejectionCounts:
        """Failed handshakes, connections without a message, and known peers that were cut off, since the last call."""
        self._read_monitor()
        counts, self._rejections = self._rejections, Counter()
        return counts

    def _read_monitor(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                event = parse_monitor_message(self._monitor.recv_multipart(_NO_WAIT))
            except zmq.Again:
                return
            self._count(int(event["event"]), int(event["value"]))

    def _count(self, event: int, value: int) -> None:
        if event & _FAILED:
            self._failed += 1
            plain = _NO_HANDSHAKE if self._zap is None else _NO_KEY
            self._rejections[STRANGER, _BAD_KEY if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH else plain] += 1
            return
        sender = self._senders.pop(value, None)
        if sender in self._ids:
            self._rejections[sender, CUT_OFF] += 1
        elif sender is None and self._failed:
            self._failed -= 1
        elif sender is None:
            self._rejections[STRANGER, _SILENT] += 1


def _shut_down(number: int) -> None:
    with contextlib.suppress(OSError), socketlib.socket(fileno=os.dup(number)) as connection:  # it may have ended
        connection.shutdown(socketlib.SHUT_RDWR)


def set_credential(socket: zmq.Socket[bytes], credential: Credential) -> None:
    """Have a peer's socket present its credential when it connects."""
    socket.setsockopt(zmq.ROUTING_ID, credential.id.encode())
    if credential.keys is not None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, credential.keys.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, credential.keys.secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, credential.keys.server)
