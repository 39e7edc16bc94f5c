"""The watchdog in the middle of a run, with fake processes. Tests with real ones are in tests/live."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aggregator.engine.tickets import Tally
from aggregator.process.status import Status
from aggregator.process.strategy_call import GIVE_UP
from testbed.common.clock import WallClock
from testbed.common.errors import RunFailed
from testbed.host import rapl
from testbed.loading.profile_loader import load
from testbed.processes.pool import AGGREGATOR
from testbed.processes.restarts import MOST_EVALUATORS, Schedule
from testbed.processes.strategy_watch import Reaction
from testbed.processes.templates.configs import EvaluatorConfig
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
        self.signals: list[int] = []

    def terminate(self) -> None:
        self.terminated += 1

    def kill(self) -> None:
        self.exitcode = -9

    def signal(self, number: int) -> None:
        self.signals.append(number)


class FakeProcesses:
    """The processes of a run, as the watchdog sees them."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {name: FakeProcess() for name in (AGGREGATOR, EVALUATOR, "a-1", "a-2")}
        self.forked: list[tuple[str, Any]] = []
        self.no_memory = False

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name]

    def fork(self, name: str, config: Any) -> None:
        if self.no_memory:
            raise RunFailed(f"{name} could not be forked")
        self.forked.append((name, config))
        self.by_name[name] = FakeProcess()

    def kill(self, name: str) -> None:
        self.by_name[name].kill()

    def why(self, name: str) -> str:
        return f"{name} died"

    def log(self, name: str) -> Path:
        return Path(f"logs/{name}.log")


class Notes:
    """A view that keeps what it was given to show."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.statuses = 0

    def starting(self, ready: int, total: int) -> None: ...

    def stopping(self) -> None:
        self.shown.append("stopping")

    def status(self, status: Status) -> None:
        self.statuses += 1

    def note(self, text: str) -> None:
        self.shown.append(text)


class Scene:
    """A run over two devices, at the tenth second."""

    def __init__(self, folder: Path, *actions: ScheduledAction, restart: int | str = "never", **changes: Any) -> None:
        experiment: Experiment = load(write_profile(folder, MINIMAL))
        experiment = replace(experiment, presence=replace(experiment.presence, restart=restart), **changes)
        self.processes, self.notes, self.stopping = FakeProcesses(), Notes(), StopRequests()
        self.schedule, self.status_file = Schedule(actions), folder / "status.json"
        devices, evaluator = dict.fromkeys(("a-1", "a-2"), CONFIG), EvaluatorConfig(cores=(0,), endpoint="")
        fake: Any = self.processes
        self.watchdog: Any = Watchdog(
            fake, experiment, devices, evaluator, self.schedule, self.stopping, self.notes, self.status_file
        )
        self.watchdog._clock = WallClock(WallClock.starting_now().origin - 10.0)
        self.watchdog._alive = dict(self.processes.by_name)

    def follow(self) -> None:
        self.watchdog._follow_schedule()

    def die(self, name: str, code: int = -9) -> None:
        self.processes[name].exitcode = code
        self.watchdog._alive.pop(name)
        self.watchdog._note_end(name, code)

    def pass_time(self, seconds: float) -> None:
        """Let host seconds pass, and carry out the actions that are due then."""
        clock = self.watchdog._clock
        self.watchdog._clock = replace(clock, origin=clock.origin - seconds)
        self.follow()

    @property
    def forked(self) -> list[str]:
        return [name for name, _ in self.processes.forked]


def kill(at: float, device: str = "a-1") -> ScheduledAction:
    return ScheduledAction(moment=at, at=at, device=device, do="kill")


def rejoin(at: float, device: str = "a-1") -> ScheduledAction:
    return ScheduledAction(moment=at - 1.0, at=at, device=device, do="rejoin")


# ---- the script


def test_only_actions_that_are_due_are_carried_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(9.0), kill(20.0, "a-2"))
    scene.follow()
    assert (scene.processes["a-1"].exitcode, scene.processes["a-2"].exitcode) == (-9, None)
    assert list(scene.watchdog._alive) == [AGGREGATOR, EVALUATOR, "a-2"]
    assert scene.watchdog._seconds_to_next_action() == 0.25  # it polls its processes in the meantime


def test_a_device_is_forked_before_it_rejoins_and_knows_when_that_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(9.0), rejoin(10.5))
    before = scene.processes["a-1"]
    scene.follow()
    [(name, config)] = scene.processes.forked
    assert (name, config.rejoining.at, config.rejoining.origin) == ("a-1", 10.5, scene.watchdog._clock.origin)
    assert scene.watchdog._alive["a-1"] is scene.processes["a-1"] is not before


def test_the_watchdog_wakes_up_for_an_action_that_is_due_soon(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(10.1))
    assert 0.0 < scene.watchdog._seconds_to_next_action() <= 0.1
    scene.watchdog._clock = None  # the run has not begun
    assert scene.watchdog._seconds_to_next_action() == 0.25


def test_after_a_signal_no_process_is_killed_or_forked(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(9.0), rejoin(10.0), restart="always")
    scene.die("a-2")
    scene.stopping.note(2)
    scene.pass_time(100.0)
    assert (scene.processes["a-1"].exitcode, scene.forked) == (None, [])
    assert scene.watchdog._seconds_to_next_action() == 0.25  # not 0: that would be a busy loop
    scene.die("a-1")
    scene.pass_time(100.0)
    assert scene.forked == []


@pytest.mark.parametrize(
    ("actions", "others", "failed"),
    [
        ([kill(1.0), kill(1.0, "a-2")], None, False),  # as scripted
        ([kill(1.0), rejoin(50.0)], 1, False),  # one will be back
        ([kill(1.0)], 1, True),  # the other failed
        ([kill(1.0)], -9, True),
    ],
)
def test_a_fleet_has_died_if_a_death_was_not_scripted_and_no_device_will_return(
    tmp_path: Path, actions: list[ScheduledAction], others: int | None, failed: bool
) -> None:
    scene = Scene(tmp_path, *actions)
    if others is not None:
        scene.die("a-2", others)
    scene.follow()
    assert scene.watchdog._all_devices_died() == failed


# ---- deaths that are not scripted


def test_by_default_the_death_of_a_device_is_noted_and_it_stays_dead(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.die("a-1")
    scene.pass_time(1000.0)
    assert (scene.notes.shown, scene.forked) == (["a-1 died"], [])


def test_a_device_is_restarted_after_a_wait_and_rejoins_when_it_has_started(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always")
    scene.die("a-1")
    scene.follow()
    assert (scene.notes.shown, scene.forked) == (["a-1 died; restart in 1 s"], [])
    scene.pass_time(1.0)
    [(name, config)] = scene.processes.forked
    assert (name, config.rejoining.at) == ("a-1", pytest.approx(12.0, abs=0.1))
    assert scene.watchdog._alive["a-1"] is scene.processes["a-1"]


def test_a_device_that_keeps_dying_waits_longer_each_time_and_is_given_up_in_the_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart=3)
    for seconds in (1, 2, 4):
        scene.die("a-1")
        assert scene.notes.shown[-1] == f"a-1 died; restart in {seconds} s"
        scene.pass_time(seconds - 0.1)
        assert "a-1" not in scene.watchdog._alive
        scene.pass_time(0.2)
        assert "a-1" in scene.watchdog._alive
    scene.die("a-1")
    scene.pass_time(1000.0)
    assert (scene.notes.shown[-1], scene.forked) == ("a-1 died", ["a-1"] * 3)


def test_a_fleet_with_a_device_that_will_be_restarted_has_not_died(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart=1)
    scene.die("a-1")
    scene.die("a-2")
    assert not scene.watchdog._all_devices_died()
    scene.pass_time(1.5)
    scene.die("a-1")
    scene.die("a-2")
    assert scene.watchdog._all_devices_died()


def test_an_evaluator_that_will_be_restarted_does_not_count_as_a_device(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for name in (EVALUATOR, "a-1", "a-2"):
        scene.die(name)
    assert scene.watchdog._all_devices_died()


def test_a_device_that_the_script_killed_is_not_restarted_by_the_policy(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(10.5), rejoin(30.0), restart="always")
    scene.die("a-1")  # before the scripted kill; the policy would restart it at second 11
    scene.pass_time(5.0)
    assert scene.forked == []
    scene.pass_time(15.0)
    assert scene.forked == ["a-1"]


def test_in_a_strict_replay_no_device_is_restarted(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always", replay=Replay(trace="somewhere", mode="strict"))
    scene.die("a-1")
    scene.pass_time(1000.0)
    assert scene.forked == []


def test_a_restart_that_fails_for_lack_of_memory_is_tried_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always")
    scene.die("a-1")
    scene.processes.no_memory = True
    scene.pass_time(1.1)
    assert scene.notes.shown[-1] == "a-1 could not be forked; restart in 2 s"
    scene.processes.no_memory = False
    scene.pass_time(2.1)
    assert scene.forked == ["a-1"]


def test_a_death_before_the_run_has_begun_fails_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always")
    scene.watchdog._clock = None
    with pytest.raises(RunFailed, match="a-1 died"):
        scene.die("a-1")


def test_a_device_that_was_asked_to_stop_ends_all_restarts_except_the_evaluators(tmp_path: Path) -> None:
    scene = Scene(tmp_path, kill(20.0, "a-2"), restart="always")
    scene.die("a-1")
    scene.die(EVALUATOR)
    scene.die("a-2", 0)
    scene.pass_time(1000.0)
    assert scene.forked == [EVALUATOR]  # the last version must still be scored


# ---- the evaluator


def test_an_evaluator_that_scores_is_restarted_however_often_it_dies(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for number in range(3 * MOST_EVALUATORS):
        scene.watchdog._scored = number
        scene.die(EVALUATOR)
        assert scene.notes.shown[-1] == "evaluator died; restart in 1 s"
        scene.pass_time(1.1)
    assert scene.forked == [EVALUATOR] * 3 * MOST_EVALUATORS


def die_without_a_score(scene: Scene) -> None:
    for _ in range(MOST_EVALUATORS - 1):
        scene.die(EVALUATOR)
        scene.pass_time(100.0)
    assert scene.forked == [EVALUATOR] * (MOST_EVALUATORS - 1)
    scene.die(EVALUATOR)


def test_without_evaluators_a_run_continues_to_its_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, stop=StopWhen(seconds=60.0, target_accuracy=0.9))
    die_without_a_score(scene)
    assert (
        scene.notes.shown[-1]
        == f"evaluator died; so did {MOST_EVALUATORS - 1} others: the run continues without scores"
    )
    scene.pass_time(1000.0)
    assert len(scene.forked) == MOST_EVALUATORS - 1


def test_without_evaluators_a_run_that_only_a_score_can_end_fails(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"only a score could end the run: set stop\.seconds"):
        die_without_a_score(Scene(tmp_path, stop=StopWhen(target_accuracy=0.9)))


# ---- what is shown


def show(scene: Scene, problems: int = 0) -> None:
    """Show the status after so many problems; the last one is already solved."""
    status = Status(
        t=0.0,
        dilation=2.0,
        origin=1.0,
        version=4,
        scored=3,
        problem="",
        problems=problems,
        last_problem=f"disk full ({problems})",
        metrics={},
        tally=Tally(),
        devices={},
    )
    show_file(scene, msgspec.json.encode(status))


def show_file(scene: Scene, content: bytes) -> None:
    scene.status_file.write_bytes(content)
    scene.watchdog._status_time = 0.0  # two quick writes may have the same modification time
    scene.watchdog._show_status()


def test_each_problem_of_the_aggregator_is_shown_once_even_if_it_was_solved_before_it_was_seen(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for problems in (0, 1, 1, 1, 2):
        show(scene, problems)
    assert scene.notes.shown == ["disk full (1)", "disk full (2)"]
    assert (scene.watchdog._clock, scene.watchdog._scored, scene.notes.statuses) == (WallClock(1.0, 2.0), 3, 5)


@pytest.mark.parametrize(
    "content", [b"", b'{"t": 1.0, "dila', b"\xff", b"[]", b'{"origin": 5.0}', b'{"origin": "now"}']
)
def test_a_file_that_is_no_status_is_not_shown_and_does_not_end_the_run(tmp_path: Path, content: bytes) -> None:
    scene = Scene(tmp_path)
    show(scene, 1)
    show_file(scene, content)
    assert (scene.watchdog._clock, scene.watchdog._scored, scene.notes.statuses) == (WallClock(1.0, 2.0), 3, 1)
    show(scene, 1)
    assert (scene.notes.shown, scene.notes.statuses) == (["disk full (1)"], 2)


def test_the_first_signal_terminates_the_aggregator_and_the_second_kills_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    aggregator = scene.processes[AGGREGATOR]
    scene.stopping.note(2)
    scene.watchdog._pass_on_signal()
    scene.watchdog._pass_on_signal()
    assert (aggregator.terminated, aggregator.exitcode, scene.notes.shown) == (1, None, ["stopping"])
    scene.stopping.note(15)
    scene.watchdog._pass_on_signal()
    assert (aggregator.exitcode, scene.stopping.signal) == (-9, 2)


def test_a_death_before_the_stop_is_noted_although_the_signal_has_already_come(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.stopping.note(2)
    scene.die("a-1")
    scene.watchdog._pass_on_signal()
    scene.die("a-2")  # perhaps because of the stop
    assert scene.notes.shown == ["a-1 died", "stopping"]


def test_after_the_signal_no_restart_is_announced_and_no_death_fails_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, restart="always")
    scene.stopping.note(2)
    scene.die("a-1")
    scene.die(EVALUATOR)
    clock, scene.watchdog._clock = scene.watchdog._clock, None  # before the run has begun
    scene.die("a-2")
    scene.watchdog._clock = clock
    assert scene.notes.shown == ["a-1 died", f"{EVALUATOR} died", "a-2 died"]
    assert not scene.watchdog._all_devices_died()


# ---- a strategy that does not return


class FixedReaction:
    text = "mine has not returned"

    def __init__(self, reaction: Reaction) -> None:
        self._reaction = reaction

    def look(self, now: float, *, stopping: bool) -> Reaction:
        return self._reaction


def test_a_slow_strategy_is_noted_a_stuck_one_is_interrupted_and_a_deaf_one_is_killed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    aggregator = scene.processes[AGGREGATOR]
    scene.watchdog._watch_strategy(FixedReaction(Reaction.FINE))
    assert (scene.notes.shown, aggregator.signals) == ([], [])
    scene.watchdog._watch_strategy(FixedReaction(Reaction.SLOW))
    scene.watchdog._watch_strategy(FixedReaction(Reaction.STUCK))
    assert (scene.notes.shown, aggregator.signals) == (["mine has not returned"], [GIVE_UP])
    with pytest.raises(RunFailed, match=r"mine has not returned \(see logs/aggregator\.log\)"):
        scene.watchdog._watch_strategy(FixedReaction(Reaction.DEAF))
    assert aggregator.exitcode == -9
    scene.watchdog._watch_strategy(FixedReaction(Reaction.DEAF))  # it has ended: the run ends as usual


# ---- the energy of the host


def test_the_energy_of_the_host_is_measured_from_the_beginning_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", counter=100_000)
    monkeypatch.setattr(rapl, "RaplMeter", functools.partial(rapl.RaplMeter, root=tmp_path))
    scene = Scene(tmp_path)
    clock, scene.watchdog._clock = scene.watchdog._clock, None
    scene.watchdog._meter_host()
    assert scene.watchdog.host_energy is None
    set_to(counter, 200_000)  # before the run
    scene.watchdog._clock = clock
    for value in (200_000, 450_000):
        set_to(counter, value)
        scene.watchdog._meter_host()
    assert scene.watchdog.host_energy.joules == {"intel-rapl:0": 0.25}
    assert 0.0 <= scene.watchdog.host_energy.seconds < 60.0
