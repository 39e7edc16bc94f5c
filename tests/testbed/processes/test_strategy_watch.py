"""When a strategy counts as one that does not return."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aggregator.process.strategy_call import CallFile
from testbed.processes.strategy_watch import Reaction, StrategyWatch


class Scene:
    """A strategy with a patience of 60 s, in its first call."""

    def __init__(self, folder: Path, patience: float = 60.0) -> None:
        self.file = CallFile(folder / "call")
        self.now, self.spent, self.stopping = 0.0, 0.0, False
        self.watch = StrategyWatch(folder / "call", self, "mine:Mine", patience)
        self.file.note("update of a, version 3")
        self.after(0.0)

    def seconds(self, now: float) -> float:
        """The meter of the watch: a look takes as long as the test says."""
        return self.spent

    def after(self, seconds: float, *, by_the_clock: float = 0.0) -> Reaction:
        """Look after the aggregator has spent some seconds."""
        self.spent, self.now = seconds, self.now + by_the_clock
        return self.watch.look(self.now, stopping=self.stopping)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_user_is_warned_once_then_the_strategy_is_interrupted_then_killed(scene: Scene) -> None:
    assert [scene.after(9.0), scene.after(2.0)] == [Reaction.FINE, Reaction.SLOW]
    assert scene.watch.text == (
        "mine:Mine has not returned for 11 s (update of a, version 3); the run ends if that takes 60 s"
        " (aggregator.patience)"
    )
    assert [scene.after(48.0), scene.after(2.0), scene.after(4.0)] == [Reaction.FINE, Reaction.STUCK, Reaction.FINE]
    assert scene.after(2.0) is Reaction.DEAF
    assert scene.watch.text == (
        "mine:Mine has not returned for 67 s (update of a, version 3) and could not be interrupted:"
        " the aggregator was killed; correct the strategy"
    )


def test_many_short_calls_use_up_no_patience(scene: Scene) -> None:
    for number in range(100):
        assert scene.after(8.0) is Reaction.FINE
        scene.file.note("")
        scene.file.note(f"update of a, version {number}")
        assert scene.after(8.0) is Reaction.FINE


def test_time_between_calls_does_not_count(scene: Scene) -> None:
    """A strict replay waits for its next update as long as that takes."""
    scene.file.note("")
    assert {scene.after(50.0) for _ in range(10)} == {Reaction.FINE}


def test_only_one_warning_is_given_in_a_run(scene: Scene) -> None:
    assert scene.after(11.0) is Reaction.SLOW
    scene.file.note("wake, version 4")
    assert [scene.after(0.0), scene.after(11.0)] == [Reaction.FINE, Reaction.FINE]


def test_after_a_stop_signal_a_call_may_last_fifteen_more_seconds(scene: Scene) -> None:
    assert scene.after(30.0) is Reaction.SLOW
    scene.stopping = True
    assert [scene.after(1.0), scene.after(13.0), scene.after(2.0)] == [Reaction.FINE, Reaction.FINE, Reaction.STUCK]


def test_a_call_that_ends_after_it_was_interrupted_is_not_killed(scene: Scene) -> None:
    assert scene.after(61.0) is Reaction.STUCK
    scene.file.note("")
    assert {scene.after(1.0) for _ in range(100)} == {Reaction.FINE}


def test_a_call_that_ends_just_before_it_is_interrupted_has_no_consequence(scene: Scene) -> None:
    assert scene.after(61.0) is Reaction.STUCK
    scene.file.note("wake, version 4")
    assert {scene.after(5.0, by_the_clock=5.0) for _ in range(11)} == {Reaction.FINE, Reaction.SLOW}


@pytest.mark.parametrize("event", ["", "update of b, version 4"])
def test_an_aggregator_that_does_not_end_after_a_stop_signal_is_killed(scene: Scene, event: str) -> None:
    """It is frozen: the meter counts nothing."""
    scene.file.note(event)
    scene.stopping = True
    assert {scene.after(0.0, by_the_clock=1.0) for _ in range(298)} == {Reaction.FINE}
    assert Reaction.DEAF in [scene.after(0.0, by_the_clock=1.0) for _ in range(3)]
    assert re.fullmatch(r"the aggregator has not ended 30\d s after the signal, and was killed", scene.watch.text)


def test_a_pause_of_the_whole_host_after_a_stop_signal_kills_nothing(scene: Scene) -> None:
    scene.file.note("")
    scene.stopping = True
    assert [scene.after(0.0), scene.after(0.0, by_the_clock=4000.0)] == [Reaction.FINE, Reaction.FINE]


def test_the_profile_sets_the_patience(tmp_path: Path) -> None:
    scene = Scene(tmp_path, patience=1e6)
    scene.after(11.0)
    assert {scene.after(10.0) for _ in range(1000)} == {Reaction.FINE}
