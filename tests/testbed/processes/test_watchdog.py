"""The launcher's watch over the processes of a run, in the middle of one. Real processes are in tests/live."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.common.clock import WallClock
from testbed.host import rapl
from testbed.loading.profile_loader import load
from testbed.processes.configs import EvaluatorConfig
from testbed.processes.pool import AGGREGATOR, RunFailed
from testbed.processes.restarts import MOST_EVALUATORS, Schedule
from testbed.processes.watchdog import StopRequests, Watchdog
from testbed.profile.schema import Experiment, Replay, StopWhen
from testbed.profile.script import ScheduledAction
from testbed.wire.messages import EVALUATOR
from tests.devices.process.test_main import CONFIG
from tests.testbed.examples import MINIMAL, write_profile
from tests.testbed.host.test_rapl import set_to, zone


class FakeProcess:
    def __init__(self, exitcode: int | None = None) -> None:
        self.exitcode, self.terminated = exitcode, 0

    def terminate(self) -> None:
        self.terminated += 1

    def kill(self) -> None:
        self.exitcode = -9


class FakeProcesses:
    """Everybody, as far as the watch can tell."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {name: FakeProcess() for name in (AGGREGATOR, EVALUATOR, "a-1", "a-2")}
        self.forked: list[tuple[str, Any]] = []
        self.no_room = False

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]

    def fork(self, name: str, config: Any) -> None:
        if self.no_room:
            raise RunFailed(f"{name} could not be forked")
        self.forked.append((name, config))
        self.by_name[name] = FakeProcess()

    def kill(self, name: str) -> None:
        self.by_name[name].kill()

    def why(self, name: str) -> str:
        return f"{name} died"


class Notes:
    """A view that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.statuses = 0

    def starting(self, ready: int, total: int) -> None: ...

    def stopping(self) -> None:
        self.told.append("stopping")

    def status(self, status: dict[str, Any]) -> None:
        self.statuses += 1

    def note(self, text: str) -> None:
        self.told.append(text)


class Scene:
    """A run over two devices, at the tenth second."""

    def __init__(self, folder: Path, *actions: ScheduledAction, restart: int | str = "never", **changes: Any) -> None:
        experiment: Experiment = load(write_profile(folder, MINIMAL))
        experiment = replace(experiment, presence=replace(experiment.presence, restart=restart), **changes)
        self.processes, self.notes, self.stopping = FakeProcesses(), Notes(), StopRequests()
        self.schedule, self.status_file = Schedule(actions), folder / "status.json"
        devices, evaluator = dict.fromkeys(("a-1", "a-2"), CONFIG), EvaluatorConfig(core=0, endpoint="")
        fake: Any = self.processes
        self.watch: Any = Watchdog(
            fake, experiment, devices, evaluator, self.schedule, self.stopping, self.notes, self.status_file
        )
        self.watch._clock = WallClock(WallClock.starting_now().origin - 10.0)
        self.watch._alive = dict(self.processes.by_name)

    def follow(self) -> None:
        self.watch._follow_agenda()

    def die(self, name: str, code: int = -9) -> None:
        self.processes[name].exitcode = code
        self.watch._alive.pop(name)
        self.watch._note_end(name, code)

    def pass_time(self, seconds: float) -> None:
        """So many host seconds pass, and everything is done that is due by then."""
        clock = self.watch._clock
        self.watch._clock = replace(clock, origin=clock.origin - seconds)
        self.follow()

    @property
    def forked(self) -> list[str]:
        return [name for name, _ in self.processes.forked]


def kill(at: float, device: str = "a-1") -> ScheduledAction:
    return ScheduledAction(moment=at, at=at, device=device, do="kill")


def rejoin(at: float, device: str = "a-1") -> ScheduledAction:
    return ScheduledAction(moment=at - 1.0, at=at, device=device, do="rejoin")


# ---- the script


def test_what_is_due_is_done_and_nothing_else(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(9.0), kill(20.0, "a-2"))
    scene.follow()
    assert (scene.processes["a-1"].exitcode, scene.processes["a-2"].exitcode) == (-9, None)
    assert list(scene.watch._alive) == [AGGREGATOR, EVALUATOR, "a-2"]
    assert scene.watch._until_next_act() == 0.25  # it looks after its processes in the meantime


def test_a_device_is_forked_before_it_rejoins_and_told_when_that_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(9.0), rejoin(10.5))
    before = scene.processes["a-1"]
    scene.follow()
    [(name, config)] = scene.processes.forked
    assert (name, config.rejoining.at, config.rejoining.origin) == ("a-1", 10.5, scene.watch._clock.origin)
    assert scene.watch._alive["a-1"] is scene.processes["a-1"] is not before


def test_an_act_that_comes_soon_is_not_slept_through(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(10.1))
    assert 0.0 < scene.watch._until_next_act() <= 0.1
    scene.watch._clock = None  # the run has not begun
    assert scene.watch._until_next_act() == 0.25


def test_after_a_signal_nobody_is_killed_or_forked(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(9.0), rejoin(10.0), restart="always")
    scene.die("a-2")
    scene.stopping.note(2)
    scene.pass_time(100.0)
    assert (scene.processes["a-1"].exitcode, scene.forked) == (None, [])
    assert scene.watch._until_next_act() == 0.25  # and it does not turn in circles
    scene.die("a-1")
    scene.pass_time(100.0)
    assert scene.forked == []


@pytest.mark.parametrize(
    ("actions", "others", "failed"),
    [
        ([kill(1.0), kill(1.0, "a-2")], None, False),  # the script wanted it so
        ([kill(1.0), rejoin(50.0)], 1, False),  # one will be back
        ([kill(1.0)], 1, True),  # the other failed
        ([kill(1.0)], -9, True),
    ],
)
def test_a_fleet_has_died_if_somebody_died_unasked_and_nobody_will_be_back(
    tmp_path: Path, actions: list[ScheduledAction], others: int | None, failed: bool
) -> None:
    scene = Scene(tmp_path, *actions)
    if others is not None:
        scene.die("a-2", others)
    scene.follow()
    assert scene.watch._all_devices_died() == failed


# ---- deaths that nobody wanted


def test_by_default_a_device_that_died_is_noted_and_stays_dead(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.die("a-1")
    scene.pass_time(1000.0)
    assert (scene.notes.told, scene.forked) == (["a-1 died"], [])


def test_a_device_is_forked_anew_after_a_while_and_says_hello_when_it_is_warm(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always")
    scene.die("a-1")
    scene.follow()
    assert (scene.notes.told, scene.forked) == (["a-1 died; it is forked anew in 1 s"], [])
    scene.pass_time(1.0)
    [(name, config)] = scene.processes.forked
    assert (name, config.rejoining.at) == ("a-1", pytest.approx(12.0, abs=0.1))
    assert scene.watch._alive["a-1"] is scene.processes["a-1"]


def test_a_device_that_dies_at_once_waits_longer_each_time_and_is_given_up_in_the_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart=3)
    for seconds in (1, 2, 4):
        scene.die("a-1")
        assert scene.notes.told[-1] == f"a-1 died; it is forked anew in {seconds} s"
        scene.pass_time(seconds - 0.1)
        assert "a-1" not in scene.watch._alive
        scene.pass_time(0.2)
        assert "a-1" in scene.watch._alive
    scene.die("a-1")
    scene.pass_time(1000.0)
    assert (scene.notes.told[-1], scene.forked) == ("a-1 died", ["a-1"] * 3)


def test_a_fleet_of_which_one_will_be_restarted_has_not_died(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart=1)
    scene.die("a-1")
    scene.die("a-2")
    assert not scene.watch._all_devices_died()
    scene.pass_time(1.5)
    scene.die("a-1")
    scene.die("a-2")
    assert scene.watch._all_devices_died()


def test_an_evaluator_that_will_be_back_does_not_stand_for_a_device(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for name in (EVALUATOR, "a-1", "a-2"):
        scene.die(name)
    assert scene.watch._all_devices_died()


def test_whom_the_script_kills_only_the_script_brings_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(10.5), rejoin(30.0), restart="always")
    scene.die("a-1")  # before its time; it would be back at the eleventh second
    scene.pass_time(5.0)
    assert scene.forked == []
    scene.pass_time(15.0)
    assert scene.forked == ["a-1"]


def test_in_a_strict_replay_nobody_is_restarted(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always", replay=Replay(trace="somewhere", mode="strict"))
    scene.die("a-1")
    scene.pass_time(1000.0)
    assert scene.forked == []


def test_a_restart_for_which_there_is_no_memory_is_tried_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always")
    scene.die("a-1")
    scene.processes.no_room = True
    scene.pass_time(1.1)
    assert scene.notes.told[-1] == "a-1 could not be forked; it is forked anew in 2 s"
    scene.processes.no_room = False
    scene.pass_time(2.1)
    assert scene.forked == ["a-1"]


def test_a_death_before_the_run_has_begun_fails_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always")
    scene.watch._clock = None
    with pytest.raises(RunFailed, match="a-1 died"):
        scene.die("a-1")


def test_a_device_that_was_told_to_stop_ends_all_restarts_but_the_evaluators(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(20.0, "a-2"), restart="always")
    scene.die("a-1")
    scene.die(EVALUATOR)
    scene.die("a-2", 0)
    scene.pass_time(1000.0)
    assert scene.forked == [EVALUATOR]  # the last version is to be scored


# ---- the evaluator


def test_an_evaluator_that_scores_is_forked_anew_however_often_it_dies(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for number in range(3 * MOST_EVALUATORS):
        scene.watch._scored = number
        scene.die(EVALUATOR)
        assert scene.notes.told[-1] == "evaluator died; it is forked anew in 1 s"
        scene.pass_time(1.1)
    assert scene.forked == [EVALUATOR] * 3 * MOST_EVALUATORS


def die_in_vain(scene: Scene) -> None:
    for _ in range(MOST_EVALUATORS - 1):
        scene.die(EVALUATOR)
        scene.pass_time(100.0)
    assert scene.forked == [EVALUATOR] * (MOST_EVALUATORS - 1)
    scene.die(EVALUATOR)


def test_without_evaluators_a_run_goes_on_to_its_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, stop=StopWhen(seconds=60.0, target_accuracy=0.9))
    die_in_vain(scene)
    assert scene.notes.told[-1] == "evaluator died, as others before it; the run goes on without scores"
    scene.pass_time(1000.0)
    assert len(scene.forked) == MOST_EVALUATORS - 1


def test_without_evaluators_a_run_that_only_a_score_can_end_fails(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"only a score could end the run \(set stop.seconds\)"):
        die_in_vain(Scene(tmp_path, stop=StopWhen(target_accuracy=0.9)))


# ---- what is shown


def show(scene: Scene, problem: str = "") -> None:
    status = {"origin": 1.0, "dilation": 2.0, "scored": 3, "problem": problem}
    scene.status_file.write_text(json.dumps(status), encoding="utf-8")
    scene.watch._seen = 0.0  # files that are written so quickly may have the same age
    scene.watch._show_status()


def test_what_troubles_the_aggregator_is_told_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for problem in ("", "no room", "no room", "", "no room"):
        show(scene, problem)
    assert scene.notes.told == ["no room", "no room"]
    assert (scene.watch._clock, scene.watch._scored, scene.notes.statuses) == (WallClock(1.0, 2.0), 3, 5)


def test_signals_are_handed_on_to_the_aggregator_the_first_one_gently(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    aggregator = scene.processes[AGGREGATOR]
    scene.stopping.note(2)
    scene.watch._pass_on_signal()
    scene.watch._pass_on_signal()
    assert (aggregator.terminated, aggregator.exitcode, scene.notes.told) == (1, None, ["stopping"])
    scene.stopping.note(15)
    scene.watch._pass_on_signal()
    assert (aggregator.exitcode, scene.stopping.signal) == (-9, 2)


# ---- the host's own joules


def test_the_host_is_metered_from_when_the_run_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", counter=100_000)
    monkeypatch.setattr(rapl, "RaplMeter", functools.partial(rapl.RaplMeter, root=tmp_path))
    scene = Scene(tmp_path)
    clock, scene.watch._clock = scene.watch._clock, None
    scene.watch._meter_host()
    assert scene.watch.host_energy is None
    set_to(counter, 200_000)  # before the run
    scene.watch._clock = clock
    for value in (200_000, 450_000):
        set_to(counter, value)
        scene.watch._meter_host()
    assert scene.watch.host_energy["joules"] == {"intel-rapl:0": 0.25}
    assert 0.0 <= scene.watch.host_energy["seconds"] < 60.0
