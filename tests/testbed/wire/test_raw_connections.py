"""Connections through which a stranger sends bytes that no peer of ours sends, over real sockets on loopback."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator

import psutil
import pytest

from testbed.wire import connection_limit
from testbed.wire.authentication import new_key_pair
from testbed.wire.connection_limit import TOO_LONG, TOO_MANY, ConnectionLimit
from testbed.wire.connection_monitor import CUT_OFF
from testbed.wire.credentials import AllowList, Credential, issue
from testbed.wire.sockets import Hub, PeerUnreachable, closing_peer
from tests.chaos import raw_bytes

PATIENCE = 120.0
LIMIT = 2 << 20
NAMES = ("rpi4-1", "rpi4-2")
PROOFS = ["ids", "passwords", "keys"]
MANY = 40

Counts = Counter[tuple[str, str]]


def issued(proof: str) -> tuple[AllowList, dict[str, Credential]]:
    return issue(NAMES, new_key_pair if proof == "keys" else None, passwords=proof != "ids")


@contextlib.contextmanager
def opened(allow: AllowList) -> Iterator[Hub]:
    hub = Hub("tcp://127.0.0.1:*", max_bytes=LIMIT, allow=allow)
    try:
        yield hub
    finally:
        hub.close(linger=0)


@contextlib.contextmanager
def raw(hub: Hub, data: bytes = b"") -> Iterator[socket.socket]:
    address, _, port = hub.endpoint.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((address, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(data)
        yield connection


def wait_for(hub: Hub, condition: Callable[[Counts, list[str]], bool]) -> tuple[Counts, list[str]]:
    """The rejected connections, and the senders of messages, as soon as they satisfy the condition."""
    counts, senders, limit = Counts(), list[str](), time.monotonic() + PATIENCE
    while not condition(counts, senders):
        incoming = hub.receive(0.01)
        senders += [] if incoming is None else [incoming[0]]
        counts.update(hub.rejected_connections())
        assert time.monotonic() < limit, (counts, senders)
    return counts, senders


def say_hello(hub: Hub, credentials: dict[str, Credential], name: str = "rpi4-1") -> None:
    """A known peer connects, sends a message and gets an answer."""
    with closing_peer(hub.endpoint, name, max_bytes=LIMIT, credential=credentials[name]) as peer:
        limit = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(PeerUnreachable):
                peer.send([b"hello"])
                break
            hub.receive(0.01)
            assert time.monotonic() < limit
        wait_for(hub, lambda _, senders: name in senders)
        hub.send(name, [b"welcome"])
        assert peer.receive(PATIENCE) is not None


@pytest.mark.parametrize(
    "data", [bytes.fromhex("01000400616263"), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 50]
)
@pytest.mark.parametrize("proof", PROOFS)
def test_frames_without_properties_are_of_a_stranger(proof: str, data: bytes) -> None:
    """ZMTP 1, and a TLS hello that looks like it: ``curl -k https://…``."""
    allow, credentials = issued(proof)
    with opened(allow) as hub:
        with raw(hub, data):
            counts, senders = wait_for(hub, lambda counts, senders: bool(senders or counts))
        assert all(sender.startswith("stranger/") for sender in senders)
        assert all(peer.startswith("stranger/") for peer, _ in counts)
        if proof != "ids":
            assert senders == []
        say_hello(hub, credentials)


def test_a_known_id_over_an_old_protocol_is_an_impostor_and_its_owner_gets_it_back() -> None:
    allow, credentials = issued("ids")
    identity = credentials["rpi4-1"].id.encode()
    old = bytes([len(identity) + 1, 0]) + identity + b"\x06\x00hello"
    with opened(allow) as hub, contextlib.ExitStack() as stack:
        peer = stack.enter_context(
            closing_peer(hub.endpoint, "rpi4-1", max_bytes=LIMIT, credential=credentials["rpi4-1"])
        )
        peer.send([b"hello"], timeout=PATIENCE)
        wait_for(hub, lambda _, senders: "rpi4-1" in senders)
        with raw(hub, old):
            _, senders = wait_for(hub, lambda counts, _: counts["rpi4-1", CUT_OFF] == 1)
            assert senders == ["impostor/None as rpi4-1"]
        peer.send([b"I am back"], timeout=PATIENCE)
        wait_for(hub, lambda _, senders: "rpi4-1" in senders)


@pytest.mark.parametrize("proof", ["passwords", "keys"])
def test_every_cut_handshake_is_refused_and_counted_once(proof: str) -> None:
    allow, credentials = issued(proof)
    cuts = [*raw_bytes.cuts()]
    with opened(allow) as hub:
        for hostile in cuts:
            with raw(hub, hostile.data) as connection, contextlib.suppress(ConnectionResetError):
                connection.recv(1)  # it was accepted
        counts, senders = wait_for(hub, lambda counts, _: counts.total() >= len(cuts))
        assert senders == []
        assert counts.total() == len(cuts)
        assert {peer for peer, _ in counts} == {"stranger/"}
        say_hello(hub, credentials)


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, LIMIT + 1])
@pytest.mark.parametrize("proof", PROOFS)
def test_an_announced_length_allocates_nothing(proof: str, length: int) -> None:
    mechanism = {"ids": b"NULL", "passwords": b"PLAIN", "keys": b"CURVE"}[proof]
    allow, credentials = issued(proof)
    with opened(allow) as hub:
        begin = raw_bytes.greeting(mechanism) + (raw_bytes.ready() if proof == "ids" else b"")
        with raw(hub, begin + b"\x06" + struct.pack(">Q", length) + b"x") as connection:
            counts, _ = wait_for(hub, lambda counts, _: bool(counts))
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1000):  # until the hub closes it
                    pass
        assert counts.total() == 1
        say_hello(hub, credentials)


# ---- limits


def test_a_name_alone_gets_no_message_through_without_a_password() -> None:
    allow, credentials = issued("passwords")
    wrong = dataclasses.replace(credentials["rpi4-1"], id="0" * 32)
    with opened(allow) as hub:
        with closing_peer(hub.endpoint, "rpi4-1", max_bytes=LIMIT, credential=wrong):
            counts, senders = wait_for(hub, lambda counts, _: counts.total() > 0)
        assert senders == []
        assert ("stranger/", "a key that is not on the list") in counts
        say_hello(hub, credentials)


@pytest.mark.parametrize("files", [400, 1024, 20_000, resource.RLIM_INFINITY])
def test_strangers_get_half_of_the_descriptors_that_the_fleet_does_not_need(
    files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda what: (files, files))
    limit = ConnectionLimit(16, LIMIT)
    assert limit.most == {400: 152, 1024: 464}.get(files, 512)


@pytest.mark.parametrize("proof", PROOFS)
def test_idle_connections_beyond_the_limit_are_closed_and_a_known_peer_comes_through(
    proof: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limit, "_MOST_UNPROVEN", MANY)
    monkeypatch.setattr(connection_limit, "_PATIENCE_SECONDS", 0.1)
    allow, credentials = issued(proof)
    with opened(allow) as hub, contextlib.ExitStack() as stack:
        before = psutil.Process().num_fds()
        address = ("127.0.0.1", int(hub.endpoint.rpartition(":")[2]))
        idle = [stack.enter_context(socket.socket()) for _ in range(3 * MANY)]
        for connection in idle:
            connection.setblocking(False)
            connection.connect_ex(address)
            hub.receive(0)
        counts, _ = wait_for(hub, lambda counts, _: counts["stranger/", TOO_MANY] >= MANY)
        assert counts.keys() == {("stranger/", TOO_MANY)}
        most = before + len(idle) + MANY + len(NAMES)
        wait_for(hub, lambda *_: psutil.Process().num_fds() <= most)
        say_hello(hub, credentials)


def pour(hub: Hub, connection: socket.socket, chunk: bytes, most: int) -> Counts:
    """Send a chunk again and again until the hub has refused something, or until so many bytes were sent."""
    counts, sent, limit = Counts(), 0, time.monotonic() + PATIENCE
    connection.setblocking(False)
    while not counts:
        with contextlib.suppress(BlockingIOError, ConnectionError):  # it was closed, and that will be reported
            sent += connection.send(memoryview(chunk)[sent % len(chunk) :])
        assert hub.receive(0.001) is None
        counts.update(hub.rejected_connections())
        assert sent < most
        assert time.monotonic() < limit
    return counts


def test_a_connection_that_sends_too_much_before_it_is_known_is_closed() -> None:
    """The greeting of a handshake, then a command that is as long as a frame may be, and more."""
    allow, credentials = issued("keys")
    with opened(allow) as hub:
        begin = raw_bytes.greeting(b"CURVE") + b"\x06" + struct.pack(">Q", LIMIT)
        with raw(hub, begin) as connection:
            assert pour(hub, connection, bytes(1 << 16), 100 * LIMIT).total() == 1
        say_hello(hub, credentials)


def test_an_endless_message_of_a_stranger_is_cut_off() -> None:
    """Where ids are the only proof, a stranger can begin a message: frames that each announce another one."""
    allow, credentials = issued("ids")
    with opened(allow) as hub:
        frame = b"\x03" + struct.pack(">Q", 1 << 16) + bytes(1 << 16)
        with raw(hub, raw_bytes.greeting(b"NULL") + raw_bytes.ready()) as connection:
            answer = b""
            while len(answer) <= len(raw_bytes.greeting(b"NULL")):  # then its handshake is complete, too
                answer += connection.recv(1000)
            assert pour(hub, connection, frame, 1 << 30) == {("stranger/", TOO_LONG): 1}
        say_hello(hub, credentials)
