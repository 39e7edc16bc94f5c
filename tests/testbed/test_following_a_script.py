"""The launcher kills and forks whom the script wants dead or alive. Real processes are in tests/live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.clock import WallClock
from testbed.launcher import Launcher
from testbed.roles import DeviceConfig
from testbed.script import Act
from tests.devices.test_process import CONFIG


class FakeProcess:
    def __init__(self, exitcode: int | None = None) -> None:
        self.exitcode = exitcode

    def kill(self) -> None:
        self.exitcode = -9

    def join(self, timeout: float) -> None:
        pass


class Scene:
    """A launcher in the middle of a run over two devices, at the tenth second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *acts: Act) -> None:
        never: Any = None
        self.launcher: Any = Launcher(never, never, Path(), Path(), never, never, never)
        self.processes: dict[str, Any] = {"a-1": FakeProcess(), "a-2": FakeProcess()}
        self.launcher._processes = self.alive = dict(self.processes)
        self.launcher._devices = dict.fromkeys(self.processes, CONFIG)
        self.launcher._acts = list(acts)
        self.launcher._clock = WallClock(WallClock.starting_now().origin - 10.0)
        self.forked: list[tuple[str, DeviceConfig]] = []
        monkeypatch.setattr(self.launcher, "_fork", self._fork)

    def _fork(self, name: str, config: DeviceConfig) -> None:
        self.forked.append((name, config))
        self.launcher._processes[name] = FakeProcess()

    def follow(self) -> None:
        alive = dict(self.alive)
        self.launcher._follow_script(alive)
        self.alive = alive


def kill(at: float, device: str = "a-1") -> Act:
    return Act(moment=at, at=at, device=device, do="kill")


def rejoin(at: float, device: str = "a-1") -> Act:
    return Act(moment=at - 1.0, at=at, device=device, do="rejoin")


def test_what_is_due_is_done_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, kill(9.0), kill(20.0, "a-2"))
    scene.follow()
    assert (scene.processes["a-1"].exitcode, scene.processes["a-2"].exitcode) == (-9, None)
    assert list(scene.alive) == ["a-2"]
    assert scene.launcher._until_next_act() == 0.25  # it looks after its processes in the meantime


def test_a_device_is_forked_before_it_rejoins_and_told_when_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, kill(9.0), rejoin(10.5))
    scene.follow()
    [(name, config)] = scene.forked
    assert config.rejoining is not None
    assert (name, config.rejoining.at, config.rejoining.origin) == ("a-1", 10.5, scene.launcher._clock.origin)
    assert scene.alive["a-1"] is scene.launcher._processes["a-1"] is not scene.processes["a-1"]


def test_an_act_that_comes_soon_is_not_slept_through(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, kill(10.1))
    assert 0.0 < scene.launcher._until_next_act() <= 0.1
    scene.launcher._clock = None  # the run has not begun
    assert scene.launcher._until_next_act() == 0.25


def test_after_a_signal_nobody_is_killed_or_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, kill(9.0), rejoin(10.0))
    scene.launcher._told_to_stop = 1
    scene.follow()
    assert (scene.processes["a-1"].exitcode, scene.forked) == (None, [])
    assert scene.launcher._until_next_act() == 0.25  # and it does not turn in circles


@pytest.mark.parametrize(
    ("acts", "others", "failed"),
    [
        ([kill(1.0), kill(1.0, "a-2")], None, False),  # the script wanted it so
        ([kill(1.0), rejoin(50.0)], 1, False),  # one will be back
        ([kill(1.0)], 1, True),  # the other failed
        ([kill(1.0)], -9, True),
    ],
)
def test_a_fleet_has_died_if_somebody_died_unasked_and_nobody_will_be_back(
    monkeypatch: pytest.MonkeyPatch, acts: list[Act], others: int | None, failed: bool
) -> None:
    scene = Scene(monkeypatch, *acts)
    if others is not None:
        scene.processes["a-2"].exitcode = others
    scene.follow()
    assert scene.launcher._all_devices_died() == failed
