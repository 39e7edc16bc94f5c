"""When a strategy counts as one that does not return."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.process.strategy_call import CallPage
from testbed.processes.strategy_watch import Reaction, StrategyWatch


class Scene:
    """A strategy with a patience of 60 s, in its first call."""

    def __init__(self, folder: Path, patience: float = 60.0) -> None:
        self.page = CallPage(folder / "page")
        self.spent, self.stopping = 0.0, False
        self.watch = StrategyWatch(folder / "page", self, "mine:Mine", patience)
        self.page.note("update of a, version 3")
        self.after(0.0)

    def seconds(self, now: float) -> float:
        """The meter of the watch: a look takes as long as the test says."""
        return self.spent

    def after(self, seconds: float) -> Reaction:
        """Look after the aggregator has spent some seconds."""
        self.spent = seconds
        return self.watch.look(0.0, stopping=self.stopping)


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
        scene.page.note("")
        scene.page.note(f"update of a, version {number}")
        assert scene.after(8.0) is Reaction.FINE


def test_time_between_calls_does_not_count(scene: Scene) -> None:
    """A strict replay waits for its next update as long as that takes."""
    scene.page.note("")
    assert {scene.after(50.0) for _ in range(10)} == {Reaction.FINE}


def test_only_one_warning_is_given_in_a_run(scene: Scene) -> None:
    assert scene.after(11.0) is Reaction.SLOW
    scene.page.note("wake, version 4")
    assert [scene.after(0.0), scene.after(11.0)] == [Reaction.FINE, Reaction.FINE]


def test_after_a_stop_signal_a_call_may_last_fifteen_more_seconds(scene: Scene) -> None:
    assert scene.after(30.0) is Reaction.SLOW
    scene.stopping = True
    assert [scene.after(1.0), scene.after(14.0), scene.after(2.0)] == [Reaction.FINE, Reaction.FINE, Reaction.STUCK]


def test_a_call_that_ends_after_it_was_interrupted_is_not_killed(scene: Scene) -> None:
    assert scene.after(61.0) is Reaction.STUCK
    scene.page.note("")
    assert {scene.after(1.0) for _ in range(100)} == {Reaction.FINE}


@pytest.mark.parametrize("stopping", [True, False])
def test_an_aggregator_that_does_not_end_is_killed(scene: Scene, stopping: bool) -> None:
    """After a stop signal, or after its strategy was interrupted."""
    scene.stopping = stopping
    scene.after(61.0)
    scene.page.note("")
    reactions = [scene.after(1.0) for _ in range(118)]
    assert set(reactions) == {Reaction.FINE}
    assert Reaction.DEAF in [scene.after(1.0), scene.after(1.0)]
    assert "s after it was asked to, and was killed" in scene.watch.text


def test_the_profile_sets_the_patience(tmp_path: Path) -> None:
    scene = Scene(tmp_path, patience=1e6)
    scene.after(11.0)
    assert {scene.after(10.0) for _ in range(1000)} == {Reaction.FINE}
