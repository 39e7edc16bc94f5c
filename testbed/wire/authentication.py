"""Authenticates the peers of a hub by id and key.

There is no thread here: the hub calls the authenticator whenever it receives. It answers the requests of ZeroMQ's
authentication protocol (ZAP). Three ways of proving who one is:

- keys (CURVE): a peer has a key of the run, and everything is encrypted;
- passwords (PLAIN): a peer presents its id before it can send anything. Whoever can read the traffic can read the id;
- ids alone, for endpoints that no stranger can reach: a peer whose routing id is unknown is a stranger.
"""

from __future__ import annotations

from typing import Any

import zmq
from zmq.utils import z85

from testbed.common.errors import UserError
from testbed.wire.connection_limit import ConnectionLimit, shut_down
from testbed.wire.connection_monitor import IMPOSTOR, STRANGER, ConnectionMonitor, RejectionCounts
from testbed.wire.credentials import AllowList, Credential, KeyPair

_ZAP = "inproc://zeromq.zap.01"
_USER = b"edgebed"
_NO_WAIT = int(zmq.NOBLOCK)
_SOURCE = int(zmq.SRCFD)
_AT_ONCE = 200
"""The most requests that one call handles: a flood of connections must not block the hub."""
_EVERY = 32
"""Messages between two checks for requests, while messages keep arriving."""


def new_key_pair() -> KeyPair:
    """A key pair for one end of an encrypted channel. Raises UserError if ZeroMQ was built without CURVE."""
    try:
        return zmq.curve_keypair()
    except zmq.ZMQError as error:
        raise UserError(f"transport.encrypt needs CURVE: {error}; install pyzmq from its wheel, which has it") from None


class Authenticator:
    """Authenticates the peers of one hub. Create it before the hub is bound.

    ``limit``: on the connections of strangers; None if they cannot reach the endpoint.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        allow: AllowList,
        limit: ConnectionLimit | None = None,
    ) -> None:
        self._names, self._ids = dict(allow.ids), {name: credential for credential, name in allow.ids.items()}
        self._proofs = (
            {z85.decode(key): name.encode() for key, name in allow.keys.items()}
            if allow.secret is not None
            else {credential.encode(): name.encode() for credential, name in allow.ids.items()}
        )
        """The last frame of a ZAP request, a public key or a password → the peer that has it."""
        self._zap: zmq.Socket[bytes] | None = None
        self._monitor = ConnectionMonitor(context, socket, self._ids.keys(), limit, has_keys=allow.secret is not None)
        self._senders = self._monitor.senders
        self._poller = zmq.Poller()
        if allow.secret is not None or allow.passwords:
            # before the first connection: without a ZAP handler, CURVE accepts any key
            self._zap = context.socket(zmq.REP)
            self._zap.setsockopt(zmq.LINGER, 0)
            self._zap.bind(_ZAP)
            if allow.secret is not None:
                socket.setsockopt(zmq.CURVE_SERVER, 1)
                socket.setsockopt(zmq.CURVE_SECRETKEY, allow.secret)
            else:
                socket.setsockopt(zmq.PLAIN_SERVER, 1)
            socket.setsockopt(zmq.ZAP_DOMAIN, b"edgebed")
            for each in (self._zap, socket, *([] if limit is None else [self._monitor.events])):
                self._poller.register(each, zmq.POLLIN)
        self._until_check = _EVERY

    @property
    def answers_zap(self) -> bool:
        """Whether peers must prove who they are before they can send anything."""
        return self._zap is not None

    def close(self) -> None:
        """Call it before the socket is closed."""
        self._monitor.close()
        if self._zap is not None:
            self._zap.close(0)

    # ---- names

    def peer_name(self, routing: str, frame: Any) -> str:
        """The name of the peer that sent ``frame`` under a routing id; one with a prefix if the peer is unknown.

        The key is checked for each message: that costs 1.5 µs, and the id may belong to another connection by now.
        """
        name = self._names.get(routing)
        try:
            owner = name if self._zap is None else frame.get("User-Id")
            connection = frame.get(_SOURCE)
        except zmq.ZMQError:  # a frame without properties: ZMTP 1 or 2, which no peer of ours speaks
            owner, connection = None, None
        if name is None:
            peer = f"{STRANGER}{routing}"
        elif owner != name:
            peer = f"{IMPOSTOR}{owner} as {name}"
        else:
            peer = name
        if self._senders.get(connection) != peer:
            if connection is not None:
                self._monitor.note_sender(connection, peer)
            if name is not None:
                self._handle_replaced(name, connection, give_back=peer != name)
        return peer

    def _handle_replaced(self, name: str, connection: int | None, *, give_back: bool) -> None:
        """Handle older connections of ``name``: ZeroMQ gave their id to the new one, and does not report their end.

        ``give_back``: the new connection is another peer's. Then close the old connection, so that its owner reconnects
        and gets the id back.
        """
        for old in self._monitor.connections_of(name):
            if old == connection:
                continue
            if give_back:
                shut_down(old)
            else:
                self._monitor.displace(old, name)

    def routing_id(self, peer: str) -> str | None:
        """The id to send an answer to; None for an impostor, since the answer would reach the owner of the id."""
        if peer.startswith(STRANGER):
            return peer.removeprefix(STRANGER)
        return self._ids.get(peer)

    # ---- keys and passwords

    def wait(self, milliseconds: int) -> None:
        """Wait until there is a message or a ZAP request, or connections must be looked at; answer requests."""
        soon = self._monitor.wakes_in
        self._poller.poll(milliseconds if soon is None else min(milliseconds, int(soon * 1000)))
        self.answer_zap()
        self._monitor.read()

    def answer_zap_sometimes(self) -> None:
        """Answer ZAP requests once in 32 calls: called for each message while messages keep arriving."""
        self._until_check -= 1
        if self._until_check <= 0:
            self.answer_zap()
            self._monitor.read()

    def answer_zap(self) -> None:
        """Accept or reject the keys of new connections (ZAP, https://rfc.zeromq.org/spec/27)."""
        self._until_check = _EVERY
        if self._zap is None:
            return
        for _ in range(_AT_ONCE):
            try:
                version, request, _, _, _, _, *proof = self._zap.recv_multipart(_NO_WAIT)
            except zmq.Again:
                return
            name = self._proofs.get(proof[-1]) if proof else None
            verdict = [b"400", b"unknown key", b""] if name is None else [b"200", b"", name]
            self._zap.send_multipart([version, request, *verdict, b""])

    def rejected_connections(self) -> RejectionCounts:
        """Failed handshakes, connections without a message, and known peers that were cut off, since the last call."""
        return self._monitor.rejected_connections()


def set_credential(socket: zmq.Socket[bytes], credential: Credential) -> None:
    """Have a peer's socket present its credential when it connects."""
    socket.setsockopt(zmq.ROUTING_ID, credential.id.encode())
    if credential.keys is not None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, credential.keys.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, credential.keys.secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, credential.keys.server)
    elif credential.password:
        socket.setsockopt(zmq.PLAIN_USERNAME, _USER)
        socket.setsockopt(zmq.PLAIN_PASSWORD, credential.id.encode())
