"""The two ends of a channel in one process."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from testbed.common.errors import UserError
from testbed.wire.sockets import Hub, Incoming, Peer, PeerUnreachable, closing_peer, wait_for_any

PATIENCE = 120.0
"""Upper bound of a wait, which ends as soon as the message arrives."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub("tcp://127.0.0.1:*", max_bytes=1000)
    yield hub
    hub.close()


@pytest.fixture
def peer(hub: Hub) -> Iterator[Peer]:
    with closing_peer(hub.endpoint, "rpi4-1", max_bytes=1000) as peer:
        yield peer


def received(hub: Hub) -> Incoming:
    incoming = hub.receive(PATIENCE)
    assert incoming is not None
    return incoming


def test_frames_arrive_under_the_name_of_their_sender_and_can_be_answered(hub: Hub, peer: Peer) -> None:
    peer.send([b"head", b"", b"body"], timeout=PATIENCE)
    name, frames = received(hub)
    assert (name, [bytes(frame) for frame in frames]) == ("rpi4-1", [b"head", b"", b"body"])
    hub.send(name, [b"answer"])
    answer = peer.receive(PATIENCE)
    assert answer is not None
    assert [bytes(frame) for frame in answer] == [b"answer"]


def test_a_peer_without_a_name_can_be_answered(hub: Hub) -> None:
    # ZeroMQ gives it five bytes, which are rarely valid text; these never are
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.setsockopt(zmq.ROUTING_ID, b"\x80\xff\xfe\xfd\xfc")
        stranger.connect(hub.endpoint)
        stranger.send(b"hello")
        name, _ = received(hub)
        hub.send(name, [b"who are you?"])
        assert stranger.poll(int(PATIENCE * 1000))
        assert stranger.recv() == b"who are you?"


def test_a_message_is_unread_from_its_arrival_until_it_is_received(hub: Hub, peer: Peer) -> None:
    assert not hub.has_unread()
    peer.send([b"head"], timeout=PATIENCE)
    limit = time.monotonic() + PATIENCE
    while not hub.has_unread():
        assert time.monotonic() < limit
        time.sleep(0.001)
    received(hub)
    assert not hub.has_unread()


def test_nothing_is_received_if_nothing_was_sent(hub: Hub, peer: Peer) -> None:
    assert hub.receive(0.0) is None
    assert peer.receive(0.0) is None


def test_a_peer_that_is_not_connected_cannot_be_reached(hub: Hub) -> None:
    with pytest.raises(PeerUnreachable, match="nobody"):
        hub.send("nobody", [b"x"])


def test_an_endpoint_that_is_in_use_is_refused_with_a_remedy(hub: Hub) -> None:
    with pytest.raises(UserError, match=rf"endpoint {hub.endpoint} cannot be opened: .*choose another transport\.port"):
        Hub(hub.endpoint, max_bytes=1000)


def test_a_wait_for_several_ends_returns_when_one_has_a_message(hub: Hub, peer: Peer) -> None:
    reader, writer = os.pipe()
    try:
        wait_for_any(0.0, [hub, peer], reader)  # nothing arrived: it does not wait longer than the timeout
        peer.send([b"hello"], timeout=PATIENCE)
        wait_for_any(PATIENCE, [hub, peer], reader)
        assert hub.receive(0) is not None
        hub.send("rpi4-1", [b"hello yourself"])
        wait_for_any(PATIENCE, [hub, peer], reader)
        assert peer.receive(0) is not None
        os.write(writer, b"x")
        began = time.monotonic()
        wait_for_any(2 * PATIENCE, [hub, peer], reader)
        assert time.monotonic() - began < PATIENCE
    finally:
        os.close(reader)
        os.close(writer)


def test_a_message_with_too_many_frames_is_truncated_and_the_next_one_is_complete(hub: Hub, peer: Peer) -> None:
    peer.send([b"x"] * 5000, timeout=PATIENCE)
    peer.send([b"head", b"body"], timeout=PATIENCE)
    name, frames = received(hub)
    assert (name, len(frames)) == ("rpi4-1", 3)  # one more than a message may have
    began, early = time.monotonic(), 0
    while (incoming := hub.receive(PATIENCE)) is None:
        early += 1
        assert time.monotonic() - began < PATIENCE
    assert early >= 3  # it was skipped in parts, so that the caller can do other work
    assert [bytes(frame) for frame in incoming[1]] == [b"head", b"body"]


def test_a_hub_removes_its_unix_socket_and_no_other(tmp_path: Path) -> None:
    hub = Hub(f"ipc://{tmp_path}/hub", max_bytes=1000)
    with pytest.raises(UserError, match="cannot be opened"):
        Hub(f"ipc://{tmp_path}/nowhere/hub", max_bytes=1000)
    (tmp_path / "other").touch()
    hub.close()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_only_its_owner_may_use_a_unix_socket(tmp_path: Path) -> None:
    before = os.umask(0)
    hub = Hub(f"ipc://{tmp_path}/hub", max_bytes=1000)
    try:
        assert stat.S_IMODE((tmp_path / "hub").stat().st_mode) == 0o600
    finally:
        os.umask(before)
        hub.close()
