"""Who comes in at a hub: names behind ids and keys, and an account of connections that came to nothing.

Beside ``testbed.wire.sockets``, the only file that imports zmq. Nothing here has a thread: whoever receives judges the keys
and reads the account.
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
from testbed.wire.credentials import AllowList, Credential, Pair

STRANGER, IMPOSTOR = "stranger/", "impostor/"
"""In front of what is no name of ours. No device's name has a / in it."""
CUT_OFF = "its connection was cut off: too large a frame, or somebody took its place"
_BAD_KEY = "a key that is not on the list"
_NO_KEY = "a handshake without a key of this run"
_NO_HANDSHAKE = "a handshake that failed"
_SILENT = "a connection that ended without a word"

_ZAP = "inproc://zeromq.zap.01"
_MONITOR = "inproc://door"
_NO_WAIT = int(zmq.NOBLOCK)
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
_AT_ONCE = 200
"""Keys and events that are looked at in one go: a flood of connections must not keep the hub from anything else."""
_EVERY = 32
"""Messages of a flood between two looks at keys."""

Account = Counter[tuple[str, str]]
"""Peer and reason → how often."""


def new_key_pair() -> Pair:
    """Keys for one end of an encrypted channel."""
    try:
        return zmq.curve_keypair()
    except zmq.ZMQError as error:
        raise UserError(f"transport.encrypt needs CURVE: {error}; install pyzmq from its wheel, which has it") from None


class Authenticator:
    """Of a hub, before it is bound. Without a server's key nothing is encrypted, and ids alone tell who it is."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], allow: AllowList) -> None:
        self._names, self._ids = dict(allow.ids), {name: credential for credential, name in allow.ids.items()}
        self._keys = {z85.decode(key): name.encode() for key, name in allow.keys.items()}
        self._socket = socket
        self._judge: zmq.Socket[bytes] | None = None
        self._poller = zmq.Poller()
        if allow.secret is not None:
            # before the first connection: where nobody judges keys, CURVE takes any
            self._judge = context.socket(zmq.REP)
            self._judge.setsockopt(zmq.LINGER, 0)
            self._judge.bind(_ZAP)
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, allow.secret)
            socket.setsockopt(zmq.ZAP_DOMAIN, b"edgebed")
            self._poller.register(self._judge, zmq.POLLIN)
            self._poller.register(socket, zmq.POLLIN)
        self._until_look = _EVERY
        socket.monitor(_MONITOR, _FAILED | zmq.EVENT_DISCONNECTED)
        self._monitor = context.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.RCVHWM, 0)  # ZeroMQ's own thread would stand still while it is full
        self._monitor.connect(_MONITOR)
        self._speakers: dict[int, str] = {}
        """File number of a connection → who has spoken through it."""
        self._failed = 0
        """Handshakes whose connections have yet to end."""
        self._account: Account = Counter()

    @property
    def encrypts(self) -> bool:
        return self._judge is not None

    def close(self) -> None:
        """Before the socket: a monitor that nobody is at the other end of would hold ZeroMQ's thread for ever."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        if self._judge is not None:
            self._judge.close(0)

    # ---- names

    def name(self, routing: str, frame: Any) -> str:
        """Of whoever sent a frame under a routing id. The key's name is looked at each time: it costs 1.5 µs, and
        the same id may be another connection's by now.
        """
        name = self._names.get(routing)
        if name is None:
            peer = f"{STRANGER}{routing}"
        elif self._judge is not None and (owner := frame.get("User-Id")) != name:
            peer = f"{IMPOSTOR}{owner} as {name}"
        else:
            peer = name
        connection = frame.get(zmq.SRCFD)
        if self._speakers.get(connection) != peer:
            self._read_monitor()  # another connection may have had this number before, and its end waits there
            self._speakers[connection] = peer
            if name is not None:
                self._look_for_the_evicted(name, connection, give_back=peer != name)
        return peer

    def _look_for_the_evicted(self, name: str, connection: int, *, give_back: bool) -> None:
        """Whoever claims an id gets it, and the connection that had it leads nowhere from then on, without an end.

        If the key is another's, we end it: the one whose it is will connect anew, and have its id back.
        """
        for old in [number for number, who in self._speakers.items() if who == name and number != connection]:
            if give_back:
                _hang_up(old)
            else:
                self._speakers[old] = STRANGER
                self._account[name, CUT_OFF] += 1

    def routing(self, peer: str) -> str | None:
        """The id to answer to; None for whoever has another's id: that is not where an answer belongs."""
        if peer.startswith(STRANGER):
            return peer.removeprefix(STRANGER)
        return self._ids.get(peer)

    # ---- keys

    def wait(self, milliseconds: int) -> None:
        """Until there is a message, or somebody was let in."""
        self._poller.poll(milliseconds)
        self.answer_zap()

    def look(self) -> None:
        """Judge keys now and then while messages flood in."""
        self._until_look -= 1
        if self._until_look <= 0:
            self.answer_zap()

    def answer_zap(self) -> None:
        """Answer for the keys of those who knock (ZAP, https://rfc.zeromq.org/spec/27)."""
        self._until_look = _EVERY
        if self._judge is None:
            return
        for _ in range(_AT_ONCE):
            try:
                version, request, _, _, _, mechanism, *keys = self._judge.recv_multipart(_NO_WAIT)
            except zmq.Again:
                return
            name = self._keys.get(keys[0]) if mechanism == b"CURVE" and keys else None
            verdict = [b"400", b"unknown key", b""] if name is None else [b"200", b"", name]
            self._judge.send_multipart([version, request, *verdict, b""])

    # ---- the account

    def rejected_connections(self) -> Account:
        """Of connections since the last time: of those that never were, and the ends of those that spoke."""
        self._read_monitor()
        rejected_connections, self._account = self._account, Counter()
        return rejected_connections

    def _read_monitor(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                event = parse_monitor_message(self._monitor.recv_multipart(_NO_WAIT))
            except zmq.Again:
                return
            self._enter(int(event["event"]), int(event["value"]))

    def _enter(self, event: int, value: int) -> None:
        if event & _FAILED:
            self._failed += 1
            plain = _NO_HANDSHAKE if self._judge is None else _NO_KEY
            self._account[STRANGER, _BAD_KEY if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH else plain] += 1
            return
        speaker = self._speakers.pop(value, None)
        if speaker in self._ids:
            self._account[speaker, CUT_OFF] += 1
        elif speaker is None and self._failed:
            self._failed -= 1
        elif speaker is None:
            self._account[STRANGER, _SILENT] += 1


def _hang_up(number: int) -> None:
    with contextlib.suppress(OSError), socketlib.socket(fileno=os.dup(number)) as connection:  # it may have ended
        connection.shutdown(socketlib.SHUT_RDWR)


def show(socket: zmq.Socket[bytes], credential: Credential) -> None:
    """Let a peer's socket show its badge when it connects."""
    socket.setsockopt(zmq.ROUTING_ID, credential.id.encode())
    if credential.keys is not None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, credential.keys.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, credential.keys.secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, credential.keys.server)
