"""Which peers a hub accepts, over real sockets on loopback."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import zmq

from testbed.wire.authentication import new_key_pair, set_credential
from testbed.wire.connection_monitor import CUT_OFF
from testbed.wire.credentials import AllowList, Credential, issue
from testbed.wire.sockets import Hub, Incoming, PeerUnreachable, closing_peer

PATIENCE = 120.0
LIMIT = 1000
NAMES = ("rpi4-1", "rpi4-2")
ENDPOINTS = ["tcp://127.0.0.1:*", "ipc://{folder}/hub"]

HubAndCredentials = tuple[Hub, dict[str, Credential]]


@contextlib.contextmanager
def opened(endpoint: str, allow: AllowList) -> Iterator[Hub]:
    hub = Hub(endpoint, max_bytes=LIMIT, allow=allow)
    try:
        yield hub
    finally:
        hub.close(linger=0)


@pytest.fixture
def plain() -> Iterator[HubAndCredentials]:
    allow, credentials = issue(NAMES)
    with opened("tcp://127.0.0.1:*", allow) as hub:
        yield hub, credentials


@pytest.fixture
def encrypted() -> Iterator[HubAndCredentials]:
    allow, credentials = issue(NAMES, new_key_pair)
    with opened("tcp://127.0.0.1:*", allow) as hub:
        yield hub, credentials


@contextlib.contextmanager
def dealer(hub: Hub, credential: Credential | None = None, name: bytes = b"rpi4-1") -> Iterator[zmq.Socket[bytes]]:
    """Connect with a plain socket."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        if credential is None:
            socket.setsockopt(zmq.ROUTING_ID, name)
        else:
            set_credential(socket, credential)
        socket.connect(hub.endpoint)
        yield socket


def received(hub: Hub) -> Incoming:
    """The next message. It may take some calls until its sender is authenticated."""
    limit = time.monotonic() + PATIENCE
    while (incoming := hub.receive(PATIENCE)) is None:
        assert time.monotonic() < limit
    return incoming


def rejections(hub: Hub, enough: Callable[[Counter[tuple[str, str]]], bool]) -> Counter[tuple[str, str]]:
    """Wait until ``enough`` is true for the rejected connections. No message may be received meanwhile."""
    counts: Counter[tuple[str, str]] = Counter()
    limit = time.monotonic() + PATIENCE
    while not enough(counts):
        assert hub.receive(0.01) is None
        counts.update(hub.rejected_connections())
        assert time.monotonic() < limit, counts
    return counts


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("pairs", [None, new_key_pair])
def test_a_peer_with_a_credential_is_known_by_name_and_can_be_answered(
    endpoint: str, pairs: Callable[[], tuple[bytes, bytes]] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    allow, credentials = issue(NAMES, pairs)
    with opened(endpoint.format(folder=tmp_path_factory.mktemp("s")), allow) as hub, contextlib.ExitStack() as stack:
        for name in NAMES:
            peer = stack.enter_context(closing_peer(hub.endpoint, name, max_bytes=LIMIT, credential=credentials[name]))
            # (a peer can send when it is connected, and for that the hub must authenticate it)
            limit = time.monotonic() + PATIENCE
            while True:
                with contextlib.suppress(PeerUnreachable):
                    peer.send([b"hello"])
                    break
                assert hub.receive(0.01) is None
                assert time.monotonic() < limit
            assert received(hub)[0] == name
            hub.send(name, [b"welcome"])
            answer = peer.receive(PATIENCE)
            assert answer is not None
            assert bytes(answer[0]) == b"welcome"
        assert hub.rejected_connections() == {}


def test_a_name_alone_is_no_credential_and_does_not_disturb_its_owner(plain: HubAndCredentials) -> None:
    hub, credentials = plain
    with dealer(hub, credentials["rpi4-1"]) as device, dealer(hub, name=b"rpi4-1") as thief:
        device.send(b"hello")
        assert received(hub)[0] == "rpi4-1"
        thief.send(b"hello")
        assert received(hub)[0] == "stranger/rpi4-1"
        hub.send("stranger/rpi4-1", [b"who are you?"])
        assert thief.poll(int(PATIENCE * 1000))
        assert thief.recv() == b"who are you?"
        hub.send("rpi4-1", [b"welcome"])
        assert device.poll(int(PATIENCE * 1000))
        assert device.recv() == b"welcome"


def test_a_peer_without_a_key_is_rejected_and_counted(encrypted: HubAndCredentials) -> None:
    hub, credentials = encrypted
    with dealer(hub, Credential(id=credentials["rpi4-1"].id)) as stranger:
        stranger.send(b"hello")
        counts = rejections(hub, lambda counts: counts.total() > 0)
    assert counts.keys() == {("stranger/", "a handshake without a key of this run")}


def test_a_peer_with_an_unknown_key_is_rejected_and_counted(encrypted: HubAndCredentials) -> None:
    hub, credentials = encrypted
    _, others = issue(NAMES, new_key_pair)
    theirs, ours = others["rpi4-1"].keys, credentials["rpi4-1"].keys
    assert theirs is not None
    assert ours is not None
    wrong = Credential(id=credentials["rpi4-1"].id, keys=dataclasses.replace(theirs, server=ours.server))
    with dealer(hub, wrong) as stranger:
        stranger.send(b"hello")
        counts = rejections(hub, lambda counts: counts.total() > 0)
    assert counts == {("stranger/", "a key that is not on the list"): 1}


def test_the_key_of_one_peer_with_the_id_of_another_is_an_impostor(encrypted: HubAndCredentials) -> None:
    hub, credentials = encrypted
    with dealer(hub, Credential(id=credentials["rpi4-2"].id, keys=credentials["rpi4-1"].keys)) as impostor:
        impostor.send(b"hello")
        peer, _ = received(hub)
        assert peer == "impostor/rpi4-1 as rpi4-2"
        with pytest.raises(PeerUnreachable, match="gets no answer"):  # an answer would reach the real one
            hub.send(peer, [b"go away"])


def test_a_peer_that_lost_its_id_to_an_impostor_gets_it_back(encrypted: HubAndCredentials) -> None:
    hub, credentials = encrypted
    with dealer(hub, credentials["rpi4-2"]) as device:
        device.send(b"hello")
        assert received(hub)[0] == "rpi4-2"
        with dealer(hub, Credential(id=credentials["rpi4-2"].id, keys=credentials["rpi4-1"].keys)) as impostor:
            impostor.send(b"hello")
            assert received(hub)[0] == "impostor/rpi4-1 as rpi4-2"
            counts = rejections(hub, lambda counts: counts.total() > 0)
            assert counts == {("rpi4-2", CUT_OFF): 1}
            device.send(b"here I am")
            assert received(hub)[0] == "rpi4-2"
            hub.send("rpi4-2", [b"welcome back"])
            assert device.poll(int(PATIENCE * 1000))
            assert not impostor.poll(0)


def test_a_second_connection_with_the_same_credential_is_noticed(plain: HubAndCredentials) -> None:
    hub, credentials = plain
    with dealer(hub, credentials["rpi4-1"]) as device, dealer(hub, credentials["rpi4-2"]) as other:
        for socket in (device, other):
            socket.send(b"hello")
            received(hub)
        with dealer(hub, credentials["rpi4-1"]) as twin:
            twin.send(b"hello")
            assert received(hub)[0] == "rpi4-1"
            assert hub.rejected_connections() == {("rpi4-1", CUT_OFF): 1}


def test_a_peer_that_sends_too_large_a_frame_is_cut_off_and_counted_by_name(plain: HubAndCredentials) -> None:
    hub, credentials = plain
    with dealer(hub, credentials["rpi4-1"]) as device:
        device.send(b"hello")
        assert received(hub)[0] == "rpi4-1"
        device.send(bytes(LIMIT + 1))
        counts = rejections(hub, lambda counts: counts.total() > 0)
        assert counts == {("rpi4-1", CUT_OFF): 1}
        device.send(b"back again")  # ZeroMQ reconnects by itself
        assert received(hub)[0] == "rpi4-1"


def test_a_connection_without_a_message_is_counted_when_it_ends(plain: HubAndCredentials) -> None:
    hub, _ = plain
    for _ in range(3):
        with dealer(hub) as silent:
            silent.send(bytes(LIMIT + 1))
            counts = rejections(hub, lambda counts: counts.total() > 0)
        assert counts.keys() == {("stranger/", "a connection that ended without a message")}
        hub.rejected_connections()


def test_a_flood_does_not_prevent_others_from_being_authenticated(encrypted: HubAndCredentials) -> None:
    hub, credentials = encrypted
    with dealer(hub, credentials["rpi4-1"]) as flood, dealer(hub, credentials["rpi4-2"]) as other:
        flood.setsockopt(zmq.SNDTIMEO, 0)
        other.send(b"hello")
        received_from: Counter[str] = Counter()
        limit = time.monotonic() + PATIENCE
        while not received_from["rpi4-2"]:
            with contextlib.suppress(zmq.Again):
                for _ in range(10):
                    flood.send(b"garbage")
            incoming = hub.receive(0.01)
            received_from[incoming[0] if incoming is not None else ""] += 1
            assert time.monotonic() < limit, received_from
