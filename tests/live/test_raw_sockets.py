"""Hostile TCP connections to a run, with bytes that no ZeroMQ peer sends; the short form of ``tests.chaos sockets``."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from testbed.history import trace
from testbed.wire.connection_limit import TOO_MANY
from tests.chaos import raw_bytes, verdict
from tests.chaos.raw_attack import Attacker
from tests.chaos.sockets import assault, places
from tests.live import few_files
from tests.live.runs import PATIENCE, Outcome, Run, complete, started, write_profile

pytestmark = pytest.mark.live

DEVICES = 3
CONNECTIONS = 400
IDLE = 1100
OLD = {"ZMTP 1": bytes.fromhex("01000400616263"), "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(512)}
WARNING = "warning: transport.encrypt is false"


def assert_unharmed(outcome: Outcome) -> None:
    """After an interruption: accounts are exact, and every device is in its place."""
    assert (outcome.code, outcome.stderr) == (130, "")
    assert [line for line in verdict.accounts(outcome) if line.holds is False] == []
    assert places(outcome, DEVICES, "").holds
    assert all(int(row["applied"]) > 2 for row in outcome.csv("devices.csv"))
    refused = outcome.summary["refused"]
    assert refused == sum(event.count for event in outcome.of_kind(trace.Refusal))
    assert f"refused: {refused} messages and connections" in outcome.stdout


@contextlib.contextmanager
def idle_connections(run: Run) -> Iterator[Attacker]:
    """Connections that begin a greeting and no more, beyond the descriptors of the aggregator. Those that are closed
    are replaced.
    """
    attacker = Attacker(
        run.listening_port(), raw_bytes.half_open(PATIENCE), connections=100 * IDLE, seconds=PATIENCE, at_once=IDLE
    )
    attacker.start()
    try:
        yield attacker
    finally:
        attacker.end()


@pytest.mark.parametrize("encrypt", [False, True])
def test_bytes_of_other_protocols_are_refused_and_do_not_end_a_run(tmp_path: Path, encrypt: bool) -> None:
    """``curl -k https://…`` is enough: its hello looks like a peer of ZMTP 1, whose frames have no properties."""
    with started(write_profile(tmp_path, transport={"kind": "tcp", "encrypt": encrypt})) as run:
        run.wait_until_traced("arrived")
        for data in OLD.values():
            with socket.create_connection(("127.0.0.1", run.listening_port()), timeout=PATIENCE) as connection:
                connection.sendall(data)
                with contextlib.suppress(ConnectionResetError):
                    while connection.recv(1000):  # until it is refused
                        pass
        run.wait_until_each_delivered(4)
        outcome = run.interrupt()
    assert_unharmed(outcome)
    assert outcome.summary["refused"] == len(OLD)
    assert (WARNING in outcome.stdout) == (not encrypt)


@pytest.mark.parametrize("encrypt", [False, True])
def test_hundreds_of_hostile_connections_are_counted_and_every_device_keeps_its_place(
    tmp_path: Path, encrypt: bool
) -> None:
    with started(write_profile(tmp_path, transport={"kind": "tcp", "encrypt": encrypt})) as run:
        run.wait_until_traced("arrived")
        seen = assault(run, CONNECTIONS, PATIENCE / 2, seed=1)
        run.wait_until_each_delivered(4)
        outcome = run.interrupt()
    assert_unharmed(outcome)
    assert seen.connections >= CONNECTIONS
    assert outcome.summary["refused"] >= seen.connections
    assert {"ZMTP 1, cut", "CURVE, cut", "half open, held"} <= seen.kinds.keys()


def test_a_thousand_idle_connections_leave_descriptors_for_checkpoints_under_a_low_limit(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, transport={"kind": "tcp"}, checkpoint={"seconds": 0.5})
    with started(profile, program=Path(few_files.__file__), own_templates=True) as run:
        run.wait_until_traced("arrived")
        aggregator = run.members()["aggregator"]
        assert aggregator.rlimit(psutil.RLIMIT_NOFILE) == (few_files.FILES, few_files.FILES)
        with idle_connections(run):
            run.wait_for(lambda: TOO_MANY in run.traced(), "connections that are closed")
            saved = run.folder / "checkpoints" / "latest.safetensors"
            before = saved.stat().st_mtime_ns if saved.exists() else 0
            run.wait_for(lambda: saved.exists() and saved.stat().st_mtime_ns > before, "a checkpoint")
            arrived = Counter(event.device for event in run.events() if isinstance(event, trace.Arrived))
            run.wait_until_each_delivered(max(arrived.values()) + 2)
        outcome = run.interrupt()
    assert_unharmed(outcome)
    assert outcome.summary["refusals"][TOO_MANY] >= 100


def test_an_endless_message_over_plain_tcp_does_not_fill_the_memory(tmp_path: Path) -> None:
    with started(write_profile(tmp_path, transport={"kind": "tcp", "encrypt": False})) as run:
        run.wait_until_traced("arrived")
        aggregator = run.members()["aggregator"]
        before = aggregator.memory_full_info().uss
        script = [raw_bytes.endless(mechanism, most=1 << 29) for mechanism in (b"NULL", b"PLAIN") * 4]
        attacker = Attacker(
            run.listening_port(), iter(script), connections=len(script), seconds=PATIENCE / 2, at_once=len(script)
        )
        attacker.start()
        most = before
        while not attacker.is_over:
            most = max(most, aggregator.memory_full_info().uss)
        attacker.end()
        run.wait_until_each_delivered(4)
        outcome = run.interrupt()
    assert most - before < 256 << 20
    assert_unharmed(outcome)
    assert outcome.summary["refused"] >= len(script)


def test_a_run_over_loopback_is_encrypted_unless_the_profile_says_otherwise(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, transport={"kind": "tcp"}, stop={"versions": 3}))
    assert outcome.code == 0
    assert WARNING not in outcome.stdout
    assert "refused:" not in outcome.stdout
