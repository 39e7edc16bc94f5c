"""A radio cell in a profile: positions of devices, and settings that contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.common.errors import UserError
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.profile import fleet
from testbed.profile.radio import Cell
from testbed.profile.schema import Experiment
from tests.testbed.examples import write_profile
from tests.testbed.profile.test_fleet import SURVEY

DEVICES = 'devices = [{ profile = "rpi4", count = 40 }, { profile = "rpi5", distance = 125.0 }]'
STRATEGY = 'strategy = "asafl"'


def load(folder: Path, *overrides: str, text: str = f"{STRATEGY}\n{DEVICES}\n[cell]\n") -> Experiment:
    return profile_loader.load(write_profile(folder, text), overrides)


def refusal(folder: Path, *overrides: str, text: str = f"{STRATEGY}\n{DEVICES}\n[cell]\n") -> str:
    with pytest.raises(UserError) as caught:
        load(folder, *overrides, text=text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def distances(experiment: Experiment, survey: Survey = SURVEY) -> list[float | None]:
    return [device.distance for device in fleet.concrete(experiment, survey)]


def test_an_empty_table_is_the_cell_of_the_paper(tmp_path: Path) -> None:
    assert load(tmp_path).cell == Cell()


def test_devices_are_spread_over_the_cell_unless_the_profile_gives_a_distance(tmp_path: Path) -> None:
    places = distances(load(tmp_path, "cell.radius=200"))
    assert places[-1] == 125.0
    assert all(place is not None and 1 <= place <= 200 for place in places)
    assert len(set(places)) == len(places)
    near = sum(place is not None and place < 100 for place in places[:-1])
    assert 3 <= near <= 20  # a quarter of the area


def test_positions_depend_only_on_the_seed(tmp_path: Path) -> None:
    places = distances(load(tmp_path))
    assert distances(load(tmp_path, "strategy.control=greedy", "stop.seconds=7")) == places
    assert distances(load(tmp_path, "seed=5"))[:-1] != places[:-1]
    assert distances(load(tmp_path, "devices[0].count=41"))[:40] == places[:40]


def test_without_a_cell_a_device_has_no_distance(tmp_path: Path) -> None:
    assert distances(load(tmp_path, text='strategy = "fedavg"\ndevices = [{ profile = "rpi4" }]')) == [None]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("cell.bandwidth=0", "cell.bandwidth is 0.0; it must be above 0"),
        ("cell.bandwidth=-1", "cell.bandwidth is -1.0; it must be above 0"),
        ("cell.noise=0", "cell.noise is 0.0; it must be at least 1e-30"),
        ("cell.power=1e6", "cell.power is 1000000.0; it must be at least -200 and at most 200"),
        ("cell.gain=-100000", "cell.gain is -100000.0; it must be at least -300"),
        ("cell.radius=1", "cell.radius is 1.0; it must be above 1"),
        ("cell.power=nan", "cell.power is nan; it must be finite"),
        ("cell.radios=3", "cell.radios is not a known key; did you mean 'radius'"),
        ("devices[1].distance=501", "devices[1].distance is 501; it must be at least 1 and at most 500, the radius of"),
        ("devices[1].distance=0.5", "devices[1].distance is 0.5; it must be at least 1"),
        ("cell.radius=100", "devices[1].distance is 125; it must be at least 1 and at most 100"),
        ("strategy=fedavg", "cell is given, but fedavg grants no rates"),
        ("strategy.degree=99", None),
    ],
)
def test_an_invalid_value_is_refused_with_its_key(tmp_path: Path, override: str, words: str | None) -> None:
    if words is None:
        load(tmp_path, override)  # only a fixed degree is used
        assert "strategy.degree is 99" in refusal(tmp_path, override, "strategy.control=fixed")
    else:
        assert words in refusal(tmp_path, override)


def test_a_strategy_that_grants_rates_needs_a_cell(tmp_path: Path) -> None:
    message = refusal(tmp_path, text=f'{STRATEGY}\ndevices = [{{ profile = "rpi4" }}]')
    assert "cell is missing; asafl shares the band of a radio cell among devices: add [cell]" in message


def test_a_distance_without_a_cell_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, text=f'strategy = "fedavg"\n{DEVICES}')
    assert "devices[1].distance is 125, but there is no radio cell: add [cell], or leave it out" in message


def test_with_light_memory_a_device_may_not_lose_its_baseline(tmp_path: Path) -> None:
    light = "strategy.memory=light"
    load(tmp_path, light)
    assert "with asafl, a device waits until a lost model is sent again" in refusal(
        tmp_path, light, "devices[0].on_lost_download=old_base"
    )
    events = '[[events]]\nat = 1\ndevice = "*"\ndo = "kill"\n[[events]]\nat = 2\ndevice = "*"\ndo = "rejoin"\n'
    text = f"{STRATEGY}\n{DEVICES}\n[cell]\n{events}"
    load(tmp_path, text=text)
    assert "events[1].do is rejoin; with memory = 'light'" in refusal(tmp_path, light, text=text)
    load(tmp_path, "presence.restart=always")
    assert "presence.restart is always; with memory = 'light'" in refusal(tmp_path, light, "presence.restart=always")


def test_a_strategy_that_grants_rates_is_not_replayed_strictly(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("", encoding="utf-8")
    recorded = f"replay.trace={tmp_path / 'trace.jsonl'}"
    load(tmp_path, recorded)
    message = refusal(tmp_path, recorded, "replay.mode=strict")
    assert "replay.mode is strict; asafl cannot be replayed strictly: its rounds depend on when devices ask" in message
    assert message.endswith("use replay.mode = 'schedule'")


def test_a_script_may_change_the_rate_of_a_granted_uplink(tmp_path: Path) -> None:
    events = '[[events]]\nat = 1\ndevice = "*"\ndo = "rate"\nvalue = 0.5\n'
    devices = 'devices = [{ profile = "rpi4", link = "none" }]'
    load(tmp_path, text=f"{STRATEGY}\n{devices}\n[cell]\n{events}")
    assert "has no limit" in refusal(tmp_path, text=f'strategy = "fedavg"\n{devices}\n{events}')
