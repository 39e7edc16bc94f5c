"""Who comes in at a hub, over real sockets on loopback."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import zmq

from testbed.wire.authentication import CUT_OFF, new_key_pair, show
from testbed.wire.credentials import AllowList, Credential, issue
from testbed.wire.sockets import Hub, Incoming, PeerUnreachable, closing_peer

PATIENCE = 20.0
LIMIT = 1000
NAMES = ("rpi4-1", "rpi4-2")
ENDPOINTS = ["tcp://127.0.0.1:*", "ipc://{folder}/hub"]

Guests = tuple[Hub, dict[str, Credential]]


@contextlib.contextmanager
def opened(endpoint: str, allow: AllowList) -> Iterator[Hub]:
    hub = Hub(endpoint, max_bytes=LIMIT, allow=allow)
    try:
        yield hub
    finally:
        hub.close(linger=0)


@pytest.fixture
def plain() -> Iterator[Guests]:
    allow, credentials = issue(NAMES)
    with opened("tcp://127.0.0.1:*", allow) as hub:
        yield hub, credentials


@pytest.fixture
def encrypted() -> Iterator[Guests]:
    allow, credentials = issue(NAMES, new_key_pair)
    with opened("tcp://127.0.0.1:*", allow) as hub:
        yield hub, credentials


@contextlib.contextmanager
def dealer(hub: Hub, credential: Credential | None = None, name: bytes = b"rpi4-1") -> Iterator[zmq.Socket[bytes]]:
    """Whoever connects with a socket of his own making."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        if credential is None:
            socket.setsockopt(zmq.ROUTING_ID, name)
        else:
            show(socket, credential)
        socket.connect(hub.endpoint)
        yield socket


def received(hub: Hub) -> Incoming:
    """The next message. It may take some rounds until whoever sends it was let in."""
    limit = time.monotonic() + PATIENCE
    while (incoming := hub.receive(PATIENCE)) is None:
        assert time.monotonic() < limit
    return incoming


def accounted(hub: Hub, enough: Callable[[Counter[tuple[str, str]]], bool]) -> Counter[tuple[str, str]]:
    """The account when there is enough in it. Nobody who may not come in is heard meanwhile."""
    rejected_connections: Counter[tuple[str, str]] = Counter()
    limit = time.monotonic() + PATIENCE
    while not enough(rejected_connections):
        assert hub.receive(0.01) is None
        rejected_connections.update(hub.rejected_connections())
        assert time.monotonic() < limit, rejected_connections
    return rejected_connections


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("pairs", [None, new_key_pair])
def test_who_has_a_badge_is_known_by_name_and_can_be_answered(
    endpoint: str, pairs: Callable[[], tuple[bytes, bytes]] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    allow, credentials = issue(NAMES, pairs)
    with opened(endpoint.format(folder=tmp_path_factory.mktemp("s")), allow) as hub, contextlib.ExitStack() as stack:
        for name in NAMES:
            peer = stack.enter_context(closing_peer(hub.endpoint, name, max_bytes=LIMIT, credential=credentials[name]))
            # (a peer sends when its connection is there, and for that the hub must look who it is)
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


def test_a_name_alone_is_no_badge_and_does_not_reach_the_one_who_has_it(plain: Guests) -> None:
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


def test_who_has_no_key_is_not_heard_and_counted(encrypted: Guests) -> None:
    hub, credentials = encrypted
    with dealer(hub, Credential(id=credentials["rpi4-1"].id)) as stranger:
        stranger.send(b"hello")
        rejected_connections = accounted(hub, lambda rejected_connections: rejected_connections.total() > 0)
    assert rejected_connections.keys() == {("stranger/", "a handshake without a key of this run")}


def test_who_has_a_key_that_is_not_on_the_list_is_not_heard_and_counted(encrypted: Guests) -> None:
    hub, credentials = encrypted
    _, others = issue(NAMES, new_key_pair)
    theirs, ours = others["rpi4-1"].keys, credentials["rpi4-1"].keys
    assert theirs is not None
    assert ours is not None
    wrong = Credential(id=credentials["rpi4-1"].id, keys=dataclasses.replace(theirs, server=ours.server))
    with dealer(hub, wrong) as stranger:
        stranger.send(b"hello")
        rejected_connections = accounted(hub, lambda rejected_connections: rejected_connections.total() > 0)
    assert rejected_connections == {("stranger/", "a key that is not on the list"): 1}


def test_the_key_of_one_with_the_id_of_another_is_nobody(encrypted: Guests) -> None:
    hub, credentials = encrypted
    with dealer(hub, Credential(id=credentials["rpi4-2"].id, keys=credentials["rpi4-1"].keys)) as impostor:
        impostor.send(b"hello")
        peer, _ = received(hub)
        assert peer == "impostor/rpi4-1 as rpi4-2"
        with pytest.raises(PeerUnreachable, match="nobody to be answered"):  # it might reach the real one
            hub.send(peer, [b"go away"])


def test_who_lost_his_place_to_an_impostor_has_it_back(encrypted: Guests) -> None:
    hub, credentials = encrypted
    with dealer(hub, credentials["rpi4-2"]) as device:
        device.send(b"hello")
        assert received(hub)[0] == "rpi4-2"
        with dealer(hub, Credential(id=credentials["rpi4-2"].id, keys=credentials["rpi4-1"].keys)) as impostor:
            impostor.send(b"hello")
            assert received(hub)[0] == "impostor/rpi4-1 as rpi4-2"
            rejected_connections = accounted(hub, lambda rejected_connections: rejected_connections.total() > 0)
            assert rejected_connections == {("rpi4-2", CUT_OFF): 1}
            device.send(b"here I am")
            assert received(hub)[0] == "rpi4-2"
            hub.send("rpi4-2", [b"welcome back"])
            assert device.poll(int(PATIENCE * 1000))
            assert not impostor.poll(0)


def test_a_place_that_is_taken_with_the_whole_badge_is_noticed(plain: Guests) -> None:
    hub, credentials = plain
    with dealer(hub, credentials["rpi4-1"]) as device, dealer(hub, credentials["rpi4-2"]) as other:
        for socket in (device, other):
            socket.send(b"hello")
            received(hub)
        with dealer(hub, credentials["rpi4-1"]) as twin:
            twin.send(b"hello")
            assert received(hub)[0] == "rpi4-1"
            assert hub.rejected_connections() == {("rpi4-1", CUT_OFF): 1}


def test_who_sends_too_large_a_frame_is_cut_off_and_counted_under_his_name(plain: Guests) -> None:
    hub, credentials = plain
    with dealer(hub, credentials["rpi4-1"]) as device:
        device.send(b"hello")
        assert received(hub)[0] == "rpi4-1"
        device.send(bytes(LIMIT + 1))
        rejected_connections = accounted(hub, lambda rejected_connections: rejected_connections.total() > 0)
        assert rejected_connections == {("rpi4-1", CUT_OFF): 1}
        device.send(b"back again")  # ZeroMQ connects anew by itself
        assert received(hub)[0] == "rpi4-1"


def test_a_connection_that_never_said_anything_is_counted_when_it_ends(plain: Guests) -> None:
    hub, _ = plain
    for _ in range(3):
        with dealer(hub) as silent:
            silent.send(bytes(LIMIT + 1))
            rejected_connections = accounted(hub, lambda rejected_connections: rejected_connections.total() > 0)
        assert rejected_connections.keys() == {("stranger/", "a connection that ended without a word")}
        hub.rejected_connections()


def test_a_flood_does_not_keep_others_from_being_let_in(encrypted: Guests) -> None:
    hub, credentials = encrypted
    with dealer(hub, credentials["rpi4-1"]) as flood, dealer(hub, credentials["rpi4-2"]) as other:
        flood.setsockopt(zmq.SNDTIMEO, 0)
        other.send(b"hello")
        heard: Counter[str] = Counter()
        limit = time.monotonic() + PATIENCE
        while not heard["rpi4-2"]:
            with contextlib.suppress(zmq.Again):
                for _ in range(10):
                    flood.send(b"garbage")
            incoming = hub.receive(0.01)
            heard[incoming[0] if incoming is not None else ""] += 1
            assert time.monotonic() < limit, heard
