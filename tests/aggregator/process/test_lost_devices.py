"""Devices and evaluators that die, freeze or fall silent unexpectedly, as the aggregator sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.connections.presence import PROBE_SECONDS, LivenessProbe, Look, PresenceTracker
from aggregator.process.output_files import Unwritten
from testbed.history import trace
from testbed.host.kernel import ExitWatch, Usage, is_computing, is_runnable
from testbed.wire.messages import EVALUATOR, Hello, Score, Snapshot, Stop, Train
from tests.aggregator.process.test_main import World, folder, of, prepare, run, time
from tests.aggregator.process.test_scripted_deaths import lively, script
from tests.devices.parts import Time

__all__ = ["folder", "time"]  # fixtures

PATIENT = ("presence.heartbeat=0.1", "presence.timeout=100")


def dead_pid() -> int:
    """The id of a process that has ended and was waited for."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def hello(name: str, pid: int) -> Hello:
    return Hello(device=name, pid=pid, cores=(1,), samples=5)


# ---- a process that has ended


def test_a_device_whose_process_has_ended_is_dropped_at_once_and_its_last_messages_have_no_effect(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    lively(world, until=0.4)
    world.at(0.5, "host-1", hello("host-1", dead_pid()))  # it is dead before the first check
    monkeypatch.setattr(
        "aggregator.connections.peers.is_computing", lambda pid: False
    )  # the process before it is dead too

    def answer(device: str, train: Train) -> None:
        if device == "host-1" and train.number == 1:
            world.update(device, train, at=0.9, due=0.9)
            world.heartbeat(device, at=0.95, ticket=train.ticket, trains=1)

    world.on_train = answer
    events = run(world, folder, monkeypatch, *PATIENT)
    left = of(trace.Left, events)
    assert [event.reason for event in left] == ["it was restarted", "its process has ended"]
    assert left[1].t == pytest.approx(0.6, abs=0.11)
    assert [event.ticket for event in of(trace.Ignored, events)] == [3]
    assert len([event for event in of(trace.Joined, events) if event.device == "host-1"]) == 2
    assert len(of(trace.Lost, events)) == 2


def test_a_device_that_the_script_has_killed_is_dropped_only_after_its_silence(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    lively(world, until=0.4)
    monkeypatch.setattr("aggregator.connections.peers.is_computing", lambda pid: False)
    monkeypatch.setattr("aggregator.connections.lost_devices.is_computing", lambda pid: False)
    began = time.now
    monkeypatch.setattr(
        "aggregator.connections.lost_devices.ExitWatch.ended",
        lambda watch: ["host-1"] if time.now - began > 0.55 else [],
    )
    events = run(world, folder, monkeypatch, script((0.5, "kill")), "presence.heartbeat=0.1", "presence.timeout=0.8")
    [left] = [event for event in of(trace.Left, events) if event.device == "host-1"]
    assert left.reason == "it was silent for too long"
    assert left.t == pytest.approx(0.39 + 0.8, abs=0.11)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes after it has read a line, and sleeps until then."""
    code = "import sys; sys.stdin.readline(); print(end='', flush=True)\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.wait()
    assert child.stdin is not None
    child.stdin.close()


def test_a_death_is_reported_once_and_only_for_the_present_process_of_a_device(
    process: subprocess.Popen[bytes],
) -> None:
    watch, pid = ExitWatch(), dead_pid()
    watch.watch("a", process.pid)
    watch.watch("b", pid)
    watch.watch("c", pid)
    watch.watch("c", os.getpid())
    assert watch.ended() == ["b"]
    assert watch.ended() == []
    process.kill()
    process.wait()
    assert watch.ended() == ["a"]
    assert watch.ended() == []


def test_a_zombie_has_ended(process: subprocess.Popen[bytes]) -> None:
    watch = ExitWatch()
    watch.watch("a", process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its exit code has not been collected
    assert watch.ended() == ["a"]


# ---- a process that is alive and silent


def use(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until the process has run for ``seconds``, according to the kernel."""
    clock = f"/proc/{process.pid}/schedstat"
    while int(Path(clock).read_text().split()[0]) * 1e-9 < seconds:
        assert process.poll() is None


def wait_until_asleep(process: subprocess.Popen[bytes]) -> None:
    while is_runnable(process.pid):
        assert process.poll() is None


def test_a_silent_process_that_sleeps_is_lost_and_one_that_computes_is_not(process: subprocess.Popen[bytes]) -> None:
    probe = LivenessProbe()
    wait_until_asleep(process)
    assert probe.computes("a", process.pid, 10.0) is None
    assert probe.computes("a", process.pid, 10.0 + 1000.0) is False
    assert process.stdin is not None
    assert probe.computes("a", process.pid, 20.0) is None
    process.stdin.write(b"\n")
    process.stdin.flush()
    use(process, 0.2)
    assert probe.computes("a", process.pid, 20.0 + 0.1) is True  # it has run for longer than that


def test_a_process_that_computes_is_runnable(process: subprocess.Popen[bytes]) -> None:
    wait_until_asleep(process)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    use(process, 0.2)
    assert is_runnable(process.pid)
    assert not is_runnable(dead_pid())


ASLEEP, WAITING = False, True
"""Whether a look found the process runnable."""


@pytest.mark.parametrize(
    ("first", "second", "counted", "computes"),
    [
        (WAITING, WAITING, Usage(0.0, 0.0), True),  # one of 500 on its core: neither counter has moved
        (WAITING, WAITING, Usage(0.003, 0.0), True),  # it got one time slice
        (ASLEEP, ASLEEP, Usage(0.0, 0.0), False),  # cut off, or blocked
        (ASLEEP, ASLEEP, Usage(0.001, 0.0002), False),  # it tries to connect again
        (ASLEEP, WAITING, Usage(0.001, 0.0002), None),  # by chance, or it has just woken on a full host
        (WAITING, ASLEEP, Usage(0.003, 0.1), False),  # it had the core, and sent nothing
        (WAITING, ASLEEP, Usage(0.003, 0.4), True),
        (ASLEEP, ASLEEP, Usage(0.5, 0.0), True),
    ],
)
def test_two_looks_distinguish_a_full_host_from_a_blocked_process(
    first: bool, second: bool, counted: Usage, computes: bool | None
) -> None:
    before = Look(10.0, Usage(2.5, 7.5), first)
    usage = Usage(2.5 + counted.cpu, 7.5 + counted.waited)
    assert Look(10.0 + PROBE_SECONDS, usage, second).shows_computing(before) is computes


def test_a_message_resets_the_probe(process: subprocess.Popen[bytes]) -> None:
    probe = LivenessProbe()
    assert probe.computes("a", process.pid, 10.0) is None
    probe.forget("a")
    assert probe.computes("a", process.pid, 20.0) is None


def test_without_data_of_the_kernel_a_process_counts_as_computing() -> None:
    assert LivenessProbe().computes("a", dead_pid(), 10.0) is True


def test_a_frozen_process_does_not_compute(process: subprocess.Popen[bytes]) -> None:
    assert is_computing(process.pid)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert not is_computing(process.pid)


def test_a_silent_device_is_reported_again_unless_it_sends_something() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.note_message("a", 0.0)
    presence.note_message("b", 0.0)
    for device in presence.silent(4.0):
        presence.recheck_in(device, 4.0, 0.5)
    assert list(presence.silent(4.4)) == []
    presence.note_message("b", 4.45)
    assert list(presence.silent(4.6)) == ["a"]


@pytest.mark.parametrize(
    ("share", "runnable", "reasons"),
    [(0.0, False, ["it was silent for too long"]), (1.0, False, []), (0.0, True, [])],
)
def test_a_silent_device_in_a_long_step_or_on_a_full_host_stays_and_a_sleeping_one_is_dropped(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, share: float, runnable: bool, reasons: list[str]
) -> None:
    world = World(time)
    for tenth in range(1, 20):
        world.heartbeat("host-2", tenth / 10 - 0.01, state="training", ticket=2, trains=1)

    class Meter:
        def __init__(self, pid: int | None = None) -> None: ...

        def __call__(self) -> Usage:
            return Usage(share * time.now, 0.0)

        def close(self) -> None: ...

    monkeypatch.setattr("aggregator.connections.presence.UsageMeter", Meter)
    monkeypatch.setattr("aggregator.connections.presence.is_runnable", lambda pid: runnable)
    events = run(world, folder, monkeypatch, "presence.heartbeat=0.1", "presence.timeout=0.5")
    left = of(trace.Left, events)
    assert [event.reason for event in left] == reasons
    assert all(event.t == pytest.approx(0.5 + PROBE_SECONDS, abs=0.25) for event in left)


# ---- evaluators


def test_a_missing_score_is_requested_from_the_next_evaluator_and_counted_once(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, send = World(time), World.send
    asked: list[int] = []

    def silent(own: World, peer: str, frames: list[bytes]) -> None:
        before = len(own.said)
        if peer == EVALUATOR and len(asked) < 1:
            monkeypatch.setattr(own, "at", lambda *words: None)  # it dies while it scores the first one
            send(own, peer, frames)
            monkeypatch.delattr(own, "at")
        else:
            send(own, peer, frames)
        asked.extend(said.version for _, said in own.said[before:] if isinstance(said, Snapshot))

    monkeypatch.setattr(World, "send", silent)
    world.at(0.5, EVALUATOR, Hello(device=EVALUATOR, pid=os.getpid(), cores=(1,), samples=0))
    world.at(
        0.75, EVALUATOR, Score(version=0, made=0.0, metrics={"accuracy": 0.5})
    )  # a late score of the evaluator that died
    events = run(world, folder, monkeypatch)
    assert asked == [0, 0]
    assert [event.version for event in of(trace.Scored, events)] == [0]


def test_a_device_that_says_hello_after_the_run_is_stopped(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    process = prepare(world, folder, monkeypatch)
    process.stop("enough")
    process._handler.running = True
    world.said.clear()
    while process._peers.missing:
        process._intake.receive(0.1)
    assert [message for peer, message in world.said if peer == "host-1"] == [Stop(reason="enough")]


# ---- files


def test_a_status_that_cannot_be_written_is_reported_once_and_the_run_continues(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "status.new").mkdir()  # even root cannot write over a folder
    events = run(World(time), folder, monkeypatch)
    assert of(trace.Stopped, events)[0].reason == "2 seconds are over"
    assert capsys.readouterr().err.count("status.new cannot be written: Is a directory") == 1


def test_a_trace_that_cannot_be_written_for_too_long_ends_the_run_with_a_reason(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.now
    monkeypatch.setattr(trace.TraceWriter, "full", property(lambda writer: time.now - began > 1.0))
    monkeypatch.setattr(trace.TraceWriter, "problem", "No space left on device")
    with pytest.raises(Unwritten, match=r"^trace.jsonl could not be written: No space left on device, for too long$"):
        run(World(time), folder, monkeypatch)
    [stopped] = of(trace.Stopped, list(trace.read(folder / "trace.jsonl")))  # written in the end
    assert stopped.reason == "the trace could not be written: No space left on device"
    assert stopped.t == pytest.approx(1.0, abs=0.2)


def test_a_model_that_cannot_be_written_fails_the_run_and_the_trace_is_kept(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "checkpoints").write_text("in the way", encoding="utf-8")
    with pytest.raises(Unwritten, match=r"^checkpoints/final.safetensors could not be written: .*File exists"):
        run(World(time), folder, monkeypatch)
    assert of(trace.Stopped, list(trace.read(folder / "trace.jsonl")))[0].reason == "2 seconds are over"
