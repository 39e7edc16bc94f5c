"""An engine that is written to a file and read back continues as before, under every strategy."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from aggregator.process import checkpoint
from aggregator.process.checkpoint import CHECKPOINT, MODULES, Checkpoints
from aggregator.strategies import STRATEGIES
from aggregator.strategy import Strategy
from testbed.common.files import statefile
from testbed.common.files.statefile import StateError
from testbed.history import trace
from testbed.history.trace_mark import TraceMark
from testbed.profile.schema import Checkpoint, DeviceGroup, Experiment
from testbed.wire.messages import Base, Train, Update
from testbed.wire.training_job import Job
from tests.aggregator.strategies.by_hand import ByHand, check_conservation, vector
from tests.testbed.examples import MESSAGES

FLEET = {"a": 10, "b": 20, "c": 30, "d": 5}
MODEL = (0.5, -1.0, 2.0)
NEEDED = {
    "fedasync": {"alpha": 0.5},
    "audg": {"interval": 1.0},
    "psurdg": {"interval": 1.0},
    "eafl": {"phi": 0.5},
    "asafl": {"rounds": 50, "budget": 50.0},
    "safl": {"k": 2},
    "fedbuff": {"k": 2},
}
MARK = TraceMark(bytes=4711, sha256="ab")
REPEATABLE = sorted(name for name, cls in STRATEGIES.items() if not cls.unrepeatable)
OTHERS = sorted(STRATEGIES.keys() - set(REPEATABLE))


def strategy(name: str) -> Strategy:
    cls = STRATEGIES[name]
    given = {key: value for key, value in NEEDED.get(name, {}).items() if key in cls.__dataclass_fields__}
    made: Strategy = cls(**given)
    return made


def play(hand: ByHand, steps: range) -> None:
    """Let a busy device answer, or wake the strategy: the device and its delta depend only on step and job."""
    for step in steps:
        chance, hand.now = np.random.default_rng([7, step]), 0.25 * (step + 1)
        wake_at = hand.engine.wake_at
        if wake_at is not None and wake_at <= hand.now:
            hand.engine.wake(hand.now)
            continue
        busy = sorted(hand.engine.busy)
        if not busy:
            continue  # a strategy with ticks waits for the next
        device = busy[chance.integers(len(busy))]
        train = hand.train(device)
        noise = np.random.default_rng([ord(device), train.number]).normal(size=len(MODEL))
        hand.update(device, *(0.1 * noise - 0.2 * train.model), train=train, seconds=0.2)


def save(hand: ByHand, folder: Path) -> Path:
    path = folder / "state.safetensors"
    statefile.draft(hand.engine.state(), MODULES).write(path, {})
    return path


def begun(name: str) -> ByHand:
    hand = ByHand(strategy(name), MODEL, job=Job(steps=2))
    hand.start(**FLEET)
    return hand


@pytest.mark.parametrize("name", REPEATABLE)
@pytest.mark.parametrize("cut", [1, 23, 40])
def test_a_run_that_resumes_from_a_file_ends_with_the_same_model(name: str, cut: int, tmp_path: Path) -> None:
    whole, first = begun(name), begun(name)
    play(whole, range(80))
    play(first, range(cut))
    second = ByHand(strategy(name), (9.0, 9.0, 9.0), job=Job(steps=2), seed=99)
    second.engine.restore(checkpoint.read(save(first, tmp_path), "aggregator"))
    second.engine.resume(first.now)
    check_conservation(second.engine)
    play(second, range(cut, 80))
    assert second.engine.version == whole.engine.version > 2
    assert second.engine.model.tobytes() == whole.engine.model.tobytes()
    assert second.engine.tally == whole.engine.tally
    assert second.engine.busy == whole.engine.busy
    check_conservation(second.engine)


@pytest.mark.parametrize("name", REPEATABLE)
def test_each_device_is_sent_its_open_ticket_again(name: str, tmp_path: Path) -> None:
    first = begun(name)
    play(first, range(30))
    second = ByHand(strategy(name), MODEL)
    second.engine.restore(checkpoint.read(save(first, tmp_path), "aggregator"))
    second.engine.resume(10.0)
    working = {device: first.train(device).ticket for device in first.engine.busy}
    assert {device: train.ticket for device, train in second.sent} == working
    assert {train.sent for _, train in second.sent} <= {10.0}
    resent = [event for event in second.trace if isinstance(event, trace.Resent)]
    assert {event.ticket for event in resent} == set(working.values())


@pytest.mark.parametrize("name", OTHERS)
def test_devices_that_have_part_of_the_state_leave_and_join_again(name: str, tmp_path: Path) -> None:
    first = ByHand(strategy(name), MODEL, job=Job(steps=2))
    first.start(**FLEET)
    for device in sorted(first.engine.busy)[:2]:
        first.now += 0.5
        (first.ask if first.engine.grants else lambda who: first.update(who, 1.0, 2.0, 3.0))(device)
    second = ByHand(strategy(name), MODEL)
    second.engine.restore(checkpoint.read(save(first, tmp_path), "aggregator"))
    second.engine.resume(5.0)
    assert not second.engine.devices
    assert not second.sent
    left = [event.device for event in second.trace if isinstance(event, trace.Left)]
    assert sorted(left) == sorted(FLEET)
    second.now = 5.0
    for device, samples in FLEET.items():
        second.join(device, samples)
    assert second.engine.busy.keys() == FLEET.keys()
    assert {train.version for _, train in second.sent} == {first.engine.version}
    check_conservation(second.engine)


def test_a_strategy_with_state_on_the_devices_cannot_be_resumed() -> None:
    assert strategy("asafl").resumable
    assert not STRATEGIES["asafl"](rounds=5, budget=5.0, memory="light").resumable


def test_a_device_that_keeps_its_base_is_sent_it_again(tmp_path: Path) -> None:
    first = begun("audg")
    present = first.engine._present["a"]
    first.update("a", 1.0, 1.0, 1.0)
    first.engine._register.keep(present, 0)
    messages: list[object] = []
    second = ByHand(strategy("audg"), MODEL)
    second.engine.restore(checkpoint.read(save(first, tmp_path), "aggregator"))
    second.engine._send = lambda device, message: messages.append((device, message))
    second.engine.resume(1.0)
    [(device, base)] = [each for each in messages if isinstance(each[1], Base)]  # type: ignore[index]
    assert (device, base.version, base.model.tolist()) == ("a", 0, list(MODEL))


def test_past_models_are_kept_only_as_long_as_they_are_needed(tmp_path: Path) -> None:
    first = begun("fedasync")
    for delta in (1.0, 2.0, 3.0):
        first.update("a", delta, delta, delta)
    second = ByHand(strategy("fedasync"), MODEL)
    second.engine.restore(checkpoint.read(save(first, tmp_path), "aggregator"))
    second.engine.resume(1.0)
    assert second.engine.models_kept == first.engine.models_kept == 2  # b, c and d have the first, a the last
    assert second.train("b").model is second.train("c").model
    for device in ("b", "c", "d"):
        second.update(device, 0.0, 0.0, 0.0)
    assert second.engine.models_kept <= 4


class Scribe:
    """Checkpoints in a folder, with a clock that the test sets."""

    def __init__(self, folder: Path, **when: object) -> None:
        self.host = 0.0
        self.synced = 0
        self.path = folder / CHECKPOINT
        experiment = Experiment(
            strategy="fedasync",
            devices=(DeviceGroup(profile="rpi4"),),
            checkpoint=Checkpoint(**when),  # type: ignore[arg-type]
        )
        self.checkpoints = Checkpoints(folder, experiment, lambda: self.host, self._sync, "aggregator")

    def _sync(self) -> None:
        self.synced += 1


def test_a_checkpoint_is_due_after_seconds_or_versions(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path, seconds=10.0, versions=5).checkpoints
    assert not scribe.is_due(9.0, 4)
    assert scribe.is_due(10.0, 1)
    assert scribe.is_due(1.0, 5)
    assert not scribe.is_due(100.0, 0)  # nothing has changed
    scribe.take(10.0, 5, MARK, {})
    scribe.wait()
    assert not scribe.is_due(19.0, 9)
    assert scribe.is_due(20.0, 6)


def test_no_checkpoint_is_written_if_checkpoints_are_disabled(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path, never=True)
    assert not scribe.checkpoints.is_due(1000.0, 1000)
    scribe.checkpoints.take_last(1000.0, 1000, MARK, dict)
    scribe.checkpoints.wait()
    assert not scribe.path.exists()


def test_a_checkpoint_contains_moment_and_version_and_the_trace_is_synced_first(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path)
    scribe.checkpoints.take_last(12.5, 7, MARK, lambda: {"engine": [1, 2]})
    scribe.checkpoints.wait()
    notes = statefile.notes_of(scribe.path)
    assert (notes["t"], notes["version"]) == ("12.5", "7")
    assert (notes["trace_bytes"], notes["trace_sha256"]) == ("4711", "ab")
    assert tomllib.loads(notes["profile"])["strategy"] == "fedasync"
    assert checkpoint.read(scribe.path, "aggregator") == {"engine": [1, 2]}
    assert scribe.synced == 1


def test_an_update_that_a_strategy_collects_is_saved_with_its_events(tmp_path: Path) -> None:
    collected = [msgspec.structs.replace(message, delta=None) for message in MESSAGES if isinstance(message, Update)]
    assert any(update.events for update in collected)
    scribe = Scribe(tmp_path)
    scribe.checkpoints.take_last(12.5, 7, MARK, lambda: {"collected": collected})
    scribe.checkpoints.wait()
    assert checkpoint.read(scribe.path, "aggregator") == {"collected": collected}


def test_writing_takes_a_tenth_of_the_time_at_most(tmp_path: Path) -> None:
    scribe = Scribe(tmp_path, versions=1)
    scribe.checkpoints._sync = lambda: setattr(scribe, "host", 3.0)  # type: ignore[method-assign]
    scribe.checkpoints.take(1.0, 1, MARK, {})
    scribe.checkpoints.wait()
    assert not scribe.checkpoints.is_due(2.0, 2)
    scribe.host = 29.9
    assert not scribe.checkpoints.is_due(2.0, 2)
    scribe.host = 30.1
    assert scribe.checkpoints.is_due(2.0, 2)


def test_a_full_disk_is_reported_once_and_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    scribe = Scribe(tmp_path, versions=1).checkpoints
    for version in (1, 2):
        scribe.take(1.0, version, MARK, {})
        scribe.wait()
    assert capsys.readouterr().err.count("a checkpoint cannot be written") == 1
    (tmp_path / "checkpoints").unlink()
    assert scribe.is_due(1.0, 3)
    scribe.take(1.0, 3, MARK, {"engine": 3})
    scribe.wait()
    assert checkpoint.read(tmp_path / CHECKPOINT, "aggregator") == {"engine": 3}


def test_a_strategy_whose_state_cannot_be_written_runs_without_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scribe = Scribe(tmp_path)
    scribe.checkpoints.take(1.0, 1, MARK, {"strategy": {"_clock": time.monotonic}})
    assert "state['strategy']['_clock'] is a" in capsys.readouterr().err
    assert not scribe.path.exists()


def test_a_state_with_classes_of_other_modules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    statefile.draft([Path("x")], ("pathlib",)).write(path, {})
    with pytest.raises(StateError, match="not allowed in a state file"):
        checkpoint.read(path, "my_rule")


def test_a_train_is_read_back_completely(tmp_path: Path) -> None:
    path, train = tmp_path / "state", Train(ticket=3, version=2, sent=1.5, job=Job(lr=0.5), model=vector(1.0, 2.0))
    statefile.draft(train, MODULES).write(path, {})
    found = checkpoint.read(path, "aggregator")
    assert (found.ticket, found.job, found.model.tolist()) == (3, Job(lr=0.5), [1.0, 2.0])
