"""Invalid messages, and messages of unknown peers of this user, to an aggregator during a run.

Over TCP, no message of a stranger is read (``test_security``, ``test_raw_sockets``): so these use the Unix socket.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
import zmq

from testbed.history import trace
from testbed.wire.codec import decode, encode
from testbed.wire.messages import Hello, Refused, Stop, Update
from tests.live.runs import Run, started, write_profile

pytestmark = pytest.mark.live

Frames = list[bytes]
ANSWER_MS = 120_000
FLOOD = 20_000


def update(size: int) -> Update:
    return Update(
        device="stranger",
        ticket=1,
        version=0,
        delta=np.zeros(size, dtype=np.float32),
        samples=1,
        steps=1,
        started=0.0,
        finished=0.0,
        due=0.0,
        loss=0.0,
    )


def altered(frames: Frames, **changes: Any) -> Frames:
    """The frames with other values in the header, whose first byte is the schema number."""
    return [frames[0][:1] + msgpack.packb(msgpack.unpackb(frames[0][1:]) | changes), *frames[1:]]


def bad_messages(size: int) -> dict[str, Frames]:
    """A part of the reason of the refusal → the frames."""
    good = [bytes(frame) for frame in encode(update(size))]
    return {
        "not msgpack": [good[0][:1] + b"\xc1 garbage"],
        "unknown schema": [b""],
        "truncated: not msgpack": [good[0][:-7], good[1]],
        "the vector frame is missing": good[:1],
        "vector frame of 16 bytes": [good[0], good[1][:16]],
        "wrong shape": [bytes(frame) for frame in encode(update(3))],
        "'<f8' - at `$.delta[0]`": altered(good, delta=["<f8", size]),
        "schema": [b"\x63" + good[0][1:], good[1]],
        "kind": altered(good, kind="Gift"),
        "loss": altered(good, loss=float("nan")),
        "3 frames": [*good, b"more"],
        "unknown device": good,
    }


@contextlib.contextmanager
def stranger(endpoint: str, name: bytes | None = None) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        if name is not None:
            dealer.setsockopt(zmq.ROUTING_ID, name)
        dealer.connect(endpoint)
        yield dealer


def answer_to(dealer: zmq.Socket[bytes], frames: Frames) -> str:
    dealer.send_multipart(frames)
    assert dealer.poll(ANSWER_MS), f"no answer to {frames[0][:40]!r}"
    message = decode(dealer.recv_multipart(), 0)
    assert isinstance(message, Refused)
    return message.reason


def unix_socket() -> str:
    """The endpoint of the run, whose private folder is the only one in the temporary folder of this test."""
    [hub] = Path(os.environ["TMPDIR"]).glob("edgebed-*/hub")
    return f"ipc://{hub}"


def model_size(run: Run) -> int:
    run.wait_until_traced("downloaded")
    events = trace.read(run.folder / "trace.jsonl")
    return next(event.bytes for event in events if isinstance(event, trace.Downloaded)) // 4


def test_strangers_are_refused_counted_and_answered_and_the_run_continues(tmp_path: Path) -> None:
    with started(write_profile(tmp_path)) as run:
        messages = bad_messages(model_size(run))
        hub = unix_socket()
        with stranger(hub, b"stranger") as known, stranger(hub) as nameless, stranger(hub, b"giant") as giant:
            giant.send(bytes(4 << 20))  # too large for a frame: the transport closes the connection without an answer
            reasons = {word: answer_to(known, frames) for word, frames in messages.items()}
            nameless_reason = answer_to(nameless, [b"who am I?"])
            hello = Hello(device="stranger", pid=1, cores=(0,), samples=10)
            not_allowed = [answer_to(known, [bytes(f) for f in encode(m)]) for m in (hello, Stop(reason="stop it"))]
            run.wait_for(lambda: "a connection that ended without a message" in run.traced(), "the giant's end")
        outcome = run.interrupt()
    for word, reason in reasons.items():
        assert word.rpartition(": ")[2] in reason
    assert "unknown schema" in nameless_reason
    assert not_allowed == ["unknown device"] * 2
    assert (outcome.code, outcome.stderr) == (130, "")
    counted: Counter[tuple[str, str]] = Counter()
    for refusal in outcome.of_kind(trace.Refusal):
        counted[refusal.peer.rpartition("/")[0], refusal.reason] += refusal.count
    expected = Counter(("stranger", reason) for reason in [*reasons.values(), nameless_reason, *not_allowed])
    # the giant frame was never received, and its sender reconnected until it was closed
    giants = counted.pop(("stranger", "a connection that ended without a message"))
    assert giants >= 1
    assert counted == expected
    assert outcome.summary["refused"] == counted.total() + giants
    assert outcome.summary["rejected"] == outcome.summary["lost"] == 0
    assert outcome.summary["devices"] == 3


def refused(run: Run) -> int:
    return sum(event.count for event in run.events() if isinstance(event, trace.Refusal))


def test_a_stranger_under_the_name_of_a_device_is_a_stranger_and_a_flood_is_dropped(tmp_path: Path) -> None:
    with started(write_profile(tmp_path)) as run:
        size, hub = model_size(run), unix_socket()
        stolen = msgspec.structs.replace(update(size), device="rpi4-1")
        with stranger(hub, b"rpi4-1") as thief, stranger(hub, b"flood") as flood:
            reasons = {answer_to(thief, [bytes(frame) for frame in encode(stolen)]) for _ in range(3)}
            flood.setsockopt(zmq.SNDTIMEO, ANSWER_MS)
            for _ in range(FLOOD):
                flood.send(b"garbage")
            many = flood.recv_multipart()
            flood.send_multipart([b"x"] * FLOOD)  # ZeroMQ delivers it as one message
            run.wait_for(
                lambda: refused(run) >= FLOOD + 3, "all refusals"
            )  # before the socket closes: it drops the rest
        run.wait_until_each_delivered(5)
        outcome = run.interrupt()
    assert reasons == {"unknown device"}
    assert isinstance(decode(many, 0), Refused)
    assert (outcome.code, outcome.stderr) == (130, "")
    summary, refusals = outcome.summary, outcome.of_kind(trace.Refusal)
    assert summary["refusals"]["unknown device"] == 3
    over_the_limit = next(count for reason, count in summary["refusals"].items() if reason.startswith("more than"))
    # all were counted, nearly all without being read, in a few lines of the trace
    assert over_the_limit > FLOOD / 2
    assert FLOOD <= summary["refused"] <= FLOOD + 10
    assert len(refusals) < 50
    assert {refusal.peer for refusal in refusals} == {"stranger/rpi4-1", "stranger/flood"}
    # the devices were not disturbed, and every ticket is accounted for
    assert all(int(row["applied"]) > 3 for row in outcome.csv("devices.csv"))
    assert summary["rejected"] == summary["lost"] == 0
    assert outcome.recount() == {key: summary[key] for key in outcome.recount()}
