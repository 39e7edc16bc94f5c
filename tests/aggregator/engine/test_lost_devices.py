"""Devices and evaluators that nobody wanted to die, freeze or fall silent, as the aggregator sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.process.main import Unwritten
from aggregator.process.presence import LOOK_SECONDS, LivenessProbe, PresenceTracker
from testbed.history import trace
from testbed.host.kernel import ExitWatch, Usage, is_computing
from testbed.wire.messages import EVALUATOR, Hello, Score, Snapshot, Stop, Train
from tests.aggregator.process.test_main import World, folder, of, prepare, run, time
from tests.aggregator.process.test_scripted_deaths import lively, script
from tests.devices.parts import Time

__all__ = ["folder", "time"]  # fixtures

PATIENT = ("presence.beat=0.1", "presence.timeout=100")


def dead_pid() -> int:
    """Of a process that has ended and is forgotten."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def hello(name: str, pid: int) -> Hello:
    return Hello(device=name, pid=pid, cores=(1,), samples=5)


# ---- a process that has ended


def test_a_device_whose_process_has_ended_is_missed_at_once_and_its_last_words_change_nothing(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    lively(world, until=0.4)
    world.at(0.5, "host-1", hello("host-1", dead_pid()))  # it is dead before anybody has looked
    monkeypatch.setattr("aggregator.process.peers.is_computing", lambda pid: False)  # and so is the one before it

    def answer(device: str, train: Train) -> None:
        if device == "host-1" and train.number == 1:
            world.update(device, train, at=0.9, due=0.9)
            world.beat(device, at=0.95, ticket=train.ticket, trains=1)

    world.on_train = answer
    events = run(world, folder, monkeypatch, *PATIENT)
    left = of(trace.Left, events)
    assert [event.reason for event in left] == ["it was restarted", "its process has ended"]
    assert left[1].t == pytest.approx(0.6, abs=0.11)
    assert [event.ticket for event in of(trace.Ignored, events)] == [3]
    assert len([event for event in of(trace.Joined, events) if event.device == "host-1"]) == 2
    assert len(of(trace.Lost, events)) == 2


def test_a_device_that_the_script_has_killed_is_missed_by_its_silence_only(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    lively(world, until=0.4)
    monkeypatch.setattr("aggregator.process.peers.is_computing", lambda pid: False)
    monkeypatch.setattr("aggregator.process.intake.is_computing", lambda pid: False)
    began = time.now
    monkeypatch.setattr(
        "aggregator.process.intake.ExitWatch.ended", lambda watch: ["host-1"] if time.now - began > 0.55 else []
    )
    events = run(world, folder, monkeypatch, script((0.5, "kill")), "presence.beat=0.1", "presence.timeout=0.8")
    [left] = [event for event in of(trace.Left, events) if event.device == "host-1"]
    assert left.reason == "it was silent for too long"
    assert left.t == pytest.approx(0.39 + 0.8, abs=0.11)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes when it is told so, and waits until then."""
    code = "import sys; sys.stdin.readline(); print(end='', flush=True)\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.wait()
    assert child.stdin is not None
    child.stdin.close()


def test_a_death_is_told_once_and_only_of_the_process_that_has_the_name_now(process: subprocess.Popen[bytes]) -> None:
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
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # nobody has asked for its exit code yet
    assert watch.ended() == ["a"]


# ---- a process that lives and is silent


def use(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Until it has run for so long, by the kernel's account."""
    clock = f"/proc/{process.pid}/schedstat"
    while int(Path(clock).read_text().split()[0]) * 1e-9 < seconds:
        assert process.poll() is None


def test_a_silent_process_that_waits_is_cut_off_and_one_that_computes_is_not(process: subprocess.Popen[bytes]) -> None:
    suspects = LivenessProbe()
    assert suspects.computes("a", process.pid, 10.0) is None
    assert suspects.computes("a", process.pid, 10.0 + 1000.0) is False
    assert process.stdin is not None
    assert suspects.computes("a", process.pid, 20.0) is None
    process.stdin.write(b"\n")
    process.stdin.flush()
    use(process, 0.2)
    assert suspects.computes("a", process.pid, 20.0 + 0.1) is True  # no less than it has run since


def test_who_is_heard_is_suspect_no_more(process: subprocess.Popen[bytes]) -> None:
    suspects = LivenessProbe()
    assert suspects.computes("a", process.pid, 10.0) is None
    suspects.heard("a")
    assert suspects.computes("a", process.pid, 20.0) is None


def test_where_the_kernel_does_not_say_a_process_is_taken_to_compute() -> None:
    assert LivenessProbe().computes("a", dead_pid(), 10.0) is True


def test_a_frozen_process_does_not_compute(process: subprocess.Popen[bytes]) -> None:
    assert is_computing(process.pid)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert not is_computing(process.pid)


def test_a_doubted_device_is_told_again_unless_it_is_heard() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.heard("a", 0.0)
    presence.heard("b", 0.0)
    for device in presence.silent(4.0):
        presence.recheck_in(device, 4.0, 0.5)
    assert list(presence.silent(4.4)) == []
    presence.heard("b", 4.45)
    assert list(presence.silent(4.6)) == ["a"]


@pytest.mark.parametrize(("share", "reasons"), [(0.0, ["it was silent for too long"]), (1.0, [])])
def test_a_device_in_a_long_step_is_left_alone_and_one_that_hangs_is_not(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, share: float, reasons: list[str]
) -> None:
    world = World(time)
    for tenth in range(1, 20):
        world.beat("host-2", tenth / 10 - 0.01, state="training", ticket=2, trains=1)

    class Meter:
        def __init__(self, pid: int | None = None) -> None: ...

        def __call__(self) -> Usage:
            return Usage(share * time.now, 0.0)

        def close(self) -> None: ...

    monkeypatch.setattr("aggregator.process.presence.UsageMeter", Meter)
    events = run(world, folder, monkeypatch, "presence.beat=0.1", "presence.timeout=0.5")
    left = of(trace.Left, events)
    assert [event.reason for event in left] == reasons
    assert all(event.t == pytest.approx(0.5 + LOOK_SECONDS, abs=0.25) for event in left)


# ---- evaluators


def test_what_an_evaluator_owed_is_asked_of_the_next_one_and_counted_once(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, send = World(time), World.send
    asked: list[int] = []

    def silent(own: World, peer: str, frames: list[bytes]) -> None:
        before = len(own.said)
        if peer == EVALUATOR and len(asked) < 1:
            monkeypatch.setattr(own, "at", lambda *words: None)  # it dies over the first one
            send(own, peer, frames)
            monkeypatch.delattr(own, "at")
        else:
            send(own, peer, frames)
        asked.extend(said.version for _, said in own.said[before:] if isinstance(said, Snapshot))

    monkeypatch.setattr(World, "send", silent)
    world.at(0.5, EVALUATOR, Hello(device=EVALUATOR, pid=os.getpid(), cores=(1,), samples=0))
    world.at(0.75, EVALUATOR, Score(version=0, made=0.0, metrics={"accuracy": 0.5}))  # of the one that died, late
    events = run(world, folder, monkeypatch)
    assert asked == [0, 0]
    assert [event.version for event in of(trace.Scored, events)] == [0]


def test_who_says_hello_when_the_run_is_over_is_told_so(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(time)
    process = prepare(world, folder, monkeypatch)
    process.stop("enough")
    process._intake.running = True
    world.said.clear()
    while process._peers.missing:
        process._intake.receive(0.1)
    assert [message for peer, message in world.said if peer == "host-1"] == [Stop(reason="enough")]


# ---- files


def test_a_status_that_cannot_be_written_is_told_once_and_the_run_goes_on(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "status.new").mkdir()  # root may write anywhere, but not over a folder
    events = run(World(time), folder, monkeypatch)
    assert of(trace.Stopped, events)[0].reason == "2 seconds are over"
    assert capsys.readouterr().err.count("status.new cannot be written: Is a directory") == 1


def test_a_trace_that_finds_no_room_for_too_long_ends_the_run_with_a_reason(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.now
    monkeypatch.setattr(trace.TraceWriter, "full", property(lambda writer: time.now - began > 1.0))
    monkeypatch.setattr(trace.TraceWriter, "problem", "No space left on device")
    with pytest.raises(Unwritten, match=r"^trace.jsonl could not be written: No space left on device, for too long$"):
        run(World(time), folder, monkeypatch)
    [stopped] = of(trace.Stopped, list(trace.read(folder / "trace.jsonl")))  # there was room in the end
    assert stopped.reason == "the trace could not be written: No space left on device"
    assert stopped.t == pytest.approx(1.0, abs=0.2)


def test_a_model_that_cannot_be_written_fails_the_run_and_the_trace_is_kept(
    time: Time, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "checkpoints").write_text("in the way", encoding="utf-8")
    with pytest.raises(Unwritten, match=r"^checkpoints/final.safetensors could not be written: .*File exists"):
        run(World(time), folder, monkeypatch)
    assert of(trace.Stopped, list(trace.read(folder / "trace.jsonl")))[0].reason == "2 seconds are over"
