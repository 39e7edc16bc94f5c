from __future__ import annotations

import os
import socket

import msgspec
import pytest

from testbed.common.channel import Channel, readable


class Note(msgspec.Struct, frozen=True):
    text: str


def pair() -> tuple[Channel[Note], Channel[Note]]:
    ours, theirs = socket.socketpair()
    return Channel(ours, Note), Channel(theirs, Note)


def test_messages_arrive_one_by_one_with_their_descriptors() -> None:
    ours, theirs = pair()
    reading, writing = os.pipe()
    ours.send(Note("one"))
    ours.send(Note("two"), [writing])
    os.close(writing)
    assert theirs.receive() == (Note("one"), [])
    note, [received] = theirs.receive()
    assert note == Note("two")
    assert not os.get_inheritable(received)
    os.write(received, b"x")
    os.close(received)
    assert os.read(reading, 2) == b"x"
    os.close(reading)
    ours.close()
    theirs.close()


def test_the_end_of_the_other_side_is_an_eof_error_even_within_a_message() -> None:
    first, second = socket.socketpair()
    theirs = Channel(second, Note)
    first.sendall(b"\0\0\0\7abc")
    first.close()
    with pytest.raises(EOFError):
        theirs.receive()
    with pytest.raises(EOFError):
        theirs.receive()
    theirs.close()


def test_waiting_ends_after_some_seconds_or_when_the_other_side_is_closed() -> None:
    ours, theirs = pair()
    assert readable([theirs.fileno()], 0.0) == set()
    ours.close()
    assert readable([theirs.fileno()], 30.0) == {theirs.fileno()}
    theirs.close()
