"""Trace files in profiles: where they are searched, errors, and the position at which a device begins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.common.errors import ProfileError
from testbed.common.parameters import as_table, build
from testbed.host.core_plan import CorePlan, CoreRoles
from testbed.host.survey import Survey
from testbed.loading import profile_loader
from testbed.planning.planner import plan
from testbed.processes import preparation
from testbed.profile import fleet
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Experiment, LinkProfile
from tests.testbed.examples import write_profile
from tests.testbed.planning.test_planner import SURVEY

RATES, THERE = "t_s,mbps\n0,8\n10,0\n15,4\n20,\n", "t_s,available\n0,1\n30,0\n40,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an experiment and traces; a link profile is in another folder, next to its trace."""
    (tmp_path / "rate.csv").write_text(RATES)
    (tmp_path / "there.csv").write_text(THERE)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "own.csv").write_text(RATES.replace("20,", "40,"))
    (tmp_path / "links" / "train.toml").write_text('down = { trace = "own.csv", delay = 0.05 }\n')
    return tmp_path


def load(folder: Path, group: str, seed: int = 0, strategy: str = "fedavg") -> Experiment:
    text = f'strategy = "{strategy}"\nseed = {seed}\n[[devices]]\nprofile = "rpi4"\n{group}'
    return profile_loader.load(write_profile(folder, text))


def devices(folder: Path, group: str, seed: int = 0, strategy: str = "fedavg") -> list[DeviceSpec]:
    return fleet.concrete(load(folder, group, seed, strategy), Survey())


def link_of(experiment: Experiment) -> LinkProfile:
    link = experiment.devices[0].link
    assert isinstance(link, LinkProfile)
    return link


def refusal(folder: Path, group: str) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        load(folder, group)
    return caught.value


# ---- where files are searched


def test_a_trace_of_an_inline_link_is_relative_to_the_experiment(folder: Path) -> None:
    link = link_of(load(folder, 'link = { up = { trace = "rate.csv" } }'))
    assert (link.up.trace, link.down.trace) == (str(folder / "rate.csv"), None)


def test_a_trace_of_a_link_profile_is_relative_to_that_profile(folder: Path) -> None:
    assert link_of(load(folder, 'link = "links/train.toml"')).down.trace == str(folder / "links" / "own.csv")


def test_availability_is_relative_to_the_experiment(folder: Path) -> None:
    assert load(folder, 'availability = "there.csv"').devices[0].availability == str(folder / "there.csv")


def test_a_stored_experiment_can_be_loaded_from_any_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = load(folder, 'link = "links/train.toml"\navailability = "there.csv"')
    again = profile_loader.resolve(
        build(Experiment, as_table(first), "stored"), "stored", tmp_path_factory.mktemp("else")
    )
    assert again == first


def test_a_trace_in_a_folder_whose_name_is_not_utf_8_is_refused_since_profiles_are_utf_8(folder: Path) -> None:
    strange = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9"))
    strange.mkdir()
    (strange / "there.csv").write_text(THERE)
    assert "there.csv'; 'utf-8' codec can't encode" in str(refusal(strange, 'availability = "there.csv"'))


# ---- errors


@pytest.mark.parametrize(
    ("group", "key", "problem"),
    [
        ('link = { up = { trace = "rate.csv", mbit = 3 } }', "link.up.mbit", "is 3, but the trace defines the rate"),
        ('link = { down = { trace = "rate.csv", spread = 0.1 } }', "link.down.spread", "is 0.1, but the trace defines"),
        ("link = { up = { trace_offset = 3 } }", "link.up.trace_offset", "is given without a trace"),
        ("availability_offset = 3", "availability_offset", "is given without availability"),
        ('link = { up = { trace = "none.csv" } }', "link.up.trace", "is 'none.csv'; {folder}/none.csv: no such file"),
        ('availability = "none.csv"', "availability", "is 'none.csv'; {folder}/none.csv: no such file"),
        ('availability = "rate.csv"', "availability", "is 'rate.csv'; {folder}/rate.csv, line 1: the header is"),
        ('link = { up = { trace = "a\\u0000b" } }', "link.up.trace", "is 'a\\x00b'; "),
        ('link = { up = { trace = "rate.csv", trace_offset = -1 } }', "link.up.trace_offset", "is -1.0"),
    ],
)
def test_a_contradiction_is_refused_with_its_key(folder: Path, group: str, key: str, problem: str) -> None:
    error = refusal(folder, group)
    assert (error.source, error.key) == (str(folder / "mine.toml"), f"devices[0].{key}")
    assert error.problem.startswith(problem.format(folder=folder))


def test_an_error_in_the_trace_of_a_link_profile_names_that_profile_the_trace_and_its_line(folder: Path) -> None:
    (folder / "links" / "own.csv").write_text("t_s,mbps\n0,8\n5,-1\n9,\n")
    error = refusal(folder, 'link = "links/train.toml"')
    assert (error.source, error.key) == (str(folder / "links" / "train.toml"), "down.trace")
    assert f"is 'own.csv'; {folder}/links/own.csv, line 3: mbps is '-1'" in error.problem


# ---- positions in the trace


def test_a_given_offset_applies_to_all_devices(folder: Path) -> None:
    link = 'link = { up = { trace = "rate.csv", trace_offset = 3 } }'
    found = devices(folder, f'count = 3\n{link}\navailability = "there.csv"\navailability_offset = 7')
    assert [(device.up.trace_offset, device.availability_offset) for device in found] == [(3.0, 7.0)] * 3


def test_without_an_offset_each_device_has_a_random_one_within_the_period(folder: Path) -> None:
    found = devices(folder, 'count = 50\nlink = { up = { trace = "rate.csv" } }\navailability = "there.csv"')
    links, there = [device.up.trace_offset or 0.0 for device in found], [device.availability_offset for device in found]
    assert len(set(links)) == len(set(there)) == 50
    assert (min(links) >= 0, max(links) < 20, min(there) >= 0, max(there) < 40) == (True, True, True, True)
    assert sum(links) / 50 == pytest.approx(10, abs=3)
    # the two draws of a device are independent
    assert all(abs(place / 20 - other / 40) > 1e-9 for place, other in zip(links, there, strict=True))


def test_offsets_depend_on_seed_and_device_and_not_on_strategy_or_count(folder: Path) -> None:
    group = 'link = { up = { trace = "rate.csv" } }\navailability = "there.csv"\ncount = '

    def places(count: int, **changes: object) -> list[tuple[float | None, float]]:
        found = devices(folder, f"{group}{count}", **changes)  # type: ignore[arg-type]
        return [(device.up.trace_offset, device.availability_offset) for device in found]

    assert places(4) == places(4, strategy="fedasync") == places(9)[:4]
    assert not set(places(4)) & set(places(4, seed=1))


def test_both_directions_of_a_device_begin_at_the_same_share_of_their_periods(folder: Path) -> None:
    (folder / "long.csv").write_text(RATES.replace("20,", "200,"))
    [device] = devices(folder, 'link = { up = { trace = "rate.csv" }, down = { trace = "long.csv" } }')
    assert device.up.trace_offset is not None
    assert device.down.trace_offset == pytest.approx(10 * device.up.trace_offset)


def test_a_drop_of_the_group_does_not_change_the_trace(folder: Path) -> None:
    [device] = devices(folder, 'link = "links/train.toml"\ndrop = 0.25')
    assert (device.down.drop, device.down.trace) == (0.25, str(folder / "links" / "own.csv"))


# ---- use of the traces


def test_a_device_without_a_trace_is_never_away(folder: Path) -> None:
    [device] = devices(folder, "")
    assert list(device.absences(0.0)) == []


def test_a_device_is_away_by_its_trace_and_offset(folder: Path) -> None:
    [device] = devices(folder, 'availability = "there.csv"\navailability_offset = 25')
    assert next(device.absences(0.0)) == (5.0, 15.0)


def test_the_template_loads_all_traces_that_devices_share(folder: Path) -> None:
    group = 'link = { up = { trace = "rate.csv" }, down = { trace = "rate.csv" } }\navailability = "there.csv"'
    roles = CoreRoles(aggregator=0, evaluator=0, device_cores=(0,), shareable=(0,))
    order = preparation.template_request(load(folder, group), roles)
    assert (order.rates, order.availability) == ((str(folder / "rate.csv"),), (str(folder / "there.csv"),))


def test_the_planner_uses_the_mean_rate(folder: Path) -> None:
    # 8 · 10/20 + 4 · 5/20 = 5 Mbit/s
    survey = Survey(parameters=250_000, samples=(320,), steps=SURVEY.steps)
    cores = CorePlan(aggregator=0, evaluator=0, devices=(0,))
    traced, steady = (
        plan(load(folder, f"link = {{ up = {{ {keys} }} }}"), survey, cores, 1.0).updates_per_second
        for keys in ('trace = "rate.csv"', "mbit = 5")
    )
    assert traced == pytest.approx(steady)
