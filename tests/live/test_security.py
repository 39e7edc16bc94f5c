"""Encrypted runs: what they hide, and which peers they refuse."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import zmq

from testbed.history import trace
from testbed.wire.authentication import new_key_pair, set_credential
from testbed.wire.codec import decode, encode
from testbed.wire.credentials import Credential, issue
from testbed.wire.messages import Heartbeat, Refused, Train
from tests.live import leaky
from tests.live.runs import Outcome, Run, complete, started, write_profile
from tests.live.test_strangers import ANSWER_MS, model_size, refused, update

pytestmark = pytest.mark.live

ENCRYPTED = {"kind": "tcp", "encrypt": True}
FLOOD = 20_000


def refusals(outcome: Outcome) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for refusal in outcome.of_kind(trace.Refusal):
        counted[refusal.peer, refusal.reason] += refusal.count
    return counted


def assert_unharmed(outcome: Outcome) -> None:
    """After an interruption, when each device had delivered some updates."""
    summary, counted = outcome.summary, outcome.recount()
    assert (outcome.code, outcome.stderr) == (130, "")
    assert counted == {key: summary[key] for key in counted}
    assert all(int(row["applied"]) > 2 for row in outcome.csv("devices.csv"))
    assert summary["refused"] == refusals(outcome).total() == sum(summary["refusals"].values())


@contextlib.contextmanager
def leaking(profile: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Run, dict[str, Credential]]]:
    """A run with a working fleet, and the credentials of its peers."""
    file = profile.parent / "credentials.json"
    monkeypatch.setenv(leaky.FILE, str(file))
    with started(profile, program=Path(leaky.__file__)) as run:
        run.wait_until_traced("downloaded", 3)
        yield run, msgspec.json.decode(file.read_bytes(), type=dict[str, Credential])


@contextlib.contextmanager
def connected(port: int, credential: Credential) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.SNDTIMEO, ANSWER_MS)
        set_credential(dealer, credential)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        yield dealer


@pytest.mark.parametrize("kind", ["ipc", "tcp"])
def test_an_encrypted_run_learns_and_its_keys_are_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    profile = write_profile(tmp_path, transport=ENCRYPTED | {"kind": kind}, compress=False)
    with leaking(profile, monkeypatch) as (run, credentials):
        run.wait_until_each_delivered(8)
        outcome = run.interrupt()
    assert_unharmed(outcome)
    assert outcome.summary["refused"] == 0
    scores = [event.metrics for event in outcome.of_kind(trace.Scored)]
    assert scores[-1]["loss"] < scores[0]["loss"]
    assert set(credentials) >= {"rpi4-1", "rpi4-2", "rpi4-3", "evaluator"}
    secrets = [
        word
        for credential in credentials.values()
        for word in (credential.id.encode(), credential.keys and credential.keys.secret)
    ]
    for file in outcome.folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not [secret for secret in secrets if secret is None or secret in content], file


def test_only_the_owner_may_use_the_sockets_of_a_run(tmp_path: Path) -> None:
    home = Path(os.environ["TMPDIR"])
    profile = write_profile(
        tmp_path,
        strategy={"name": "eafl", "clusters": 2, "every": 15},
        transport=ENCRYPTED,
        devices=[{"profile": "rpi4", "link": "wifi", "count": 4}],
    )
    with started(profile) as run:
        # heads have Unix sockets with any transport: all devices are processes of this machine
        run.wait_for(lambda: list(home.glob("edgebed-*/head-*")), "a cluster head's socket")
        modes = {
            path.name.partition("-")[0]: stat.S_IMODE(path.stat().st_mode)
            for path in (*home.glob("edgebed-*"), *home.glob("edgebed-*/head-*"))
        }
        run.wait_until_traced("merged")
        outcome = run.interrupt()
    assert modes == {"edgebed": 0o700, "head": 0o600}
    assert outcome.code == 130
    assert outcome.summary["refused"] == 0


def test_peers_without_a_key_with_a_wrong_key_or_a_stolen_id_are_refused_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = write_profile(tmp_path, transport=ENCRYPTED)
    with leaking(profile, monkeypatch) as (run, credentials):
        port, size = run.listening_port(), model_size(run)
        mine, other = credentials["rpi4-1"].keys, issue(["rpi4-1"], new_key_pair)[1]["rpi4-1"].keys
        assert mine is not None
        assert other is not None
        forged = [bytes(frame) for frame in encode(msgspec.structs.replace(update(size), device="rpi4-2"))]
        with (
            connected(port, Credential(id=credentials["rpi4-2"].id)) as keyless,
            connected(port, Credential(id=credentials["rpi4-2"].id, keys=replace(other, server=mine.server))) as wrong,
        ):
            for stranger in (keyless, wrong):
                with contextlib.suppress(zmq.Again):  # if it is refused already, ZeroMQ has nowhere to send it
                    stranger.send_multipart(forged, zmq.NOBLOCK)
            run.wait_until_traced("refusal", 2)
            assert not keyless.poll(0)
            assert not wrong.poll(0)
        with connected(port, Credential(id=credentials["rpi4-2"].id, keys=mine)) as thief:
            thief.send_multipart(forged)
            run.wait_for(lambda: "the key of another device" in run.traced(), "a stolen id")
        run.wait_until_each_delivered(4)
        outcome = run.interrupt()
    assert_unharmed(outcome)
    counted = refusals(outcome)
    assert counted["stranger/", "a handshake without a key of this run"] >= 1
    assert counted["stranger/", "a key that is not on the list"] >= 1
    assert counted["impostor/rpi4-1 as rpi4-2", "the key of another device"] >= 1
    assert outcome.summary["rejected"] == 0  # none of it reached the strategy


def test_a_flood_from_a_device_is_dropped_counted_and_answered_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the credential of a device: as if its process were replaced by a defective one."""
    profile = write_profile(tmp_path, transport={"kind": "tcp", "message_limit": 100})
    with leaking(profile, monkeypatch) as (run, credentials):
        size = model_size(run)
        with connected(run.listening_port(), credentials["rpi4-3"]) as flood:
            heartbeat = encode(Heartbeat(device="rpi4-3", state="idle"))
            for number in range(FLOOD):
                flood.send_multipart([b"garbage"] if number % 2 else [bytes(frame) for frame in heartbeat])
            while flood.poll(ANSWER_MS) and isinstance(answer := decode(flood.recv_multipart(), size), Train):
                pass  # it has the id of the device, and a Train was on its way
            run.wait_for(lambda: refused(run) > FLOOD * 0.6, "the refusals")  # before the socket drops the rest
        run.wait_until_each_delivered(4, {"rpi4-1", "rpi4-2"})
        outcome = run.interrupt()
    assert isinstance(answer, Refused)
    assert outcome.code == 130
    summary, counted = outcome.summary, refusals(outcome)
    assert counted["rpi4-3", "more than 100 messages a second; a bad one counts as 100"] > FLOOD / 2
    assert len(outcome.of_kind(trace.Refusal)) < 100
    applied = {row["device"]: int(row["applied"]) for row in outcome.csv("devices.csv")}
    assert min(applied["rpi4-1"], applied["rpi4-2"]) > 2
    assert outcome.recount() == {key: summary[key] for key in outcome.recount()}


def test_plain_traffic_that_leaves_this_machine_is_refused_before_the_run_starts(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, transport={"kind": "tcp", "host": "*", "encrypt": False}))
    assert outcome.code == 2
    assert "transport.encrypt is false, and other machines can reach transport.host = '*'" in outcome.stderr
    assert "leave it out" in outcome.stderr
    assert not outcome.folder.exists()
