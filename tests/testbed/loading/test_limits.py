"""Numbers of a profile that no experiment has: refused with the key and its limits, wherever they are given."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.strategies import STRATEGIES
from testbed.cli.main import main
from testbed.common.errors import ProfileError
from testbed.common.parameters import Parameter, build, param, parameters_of
from testbed.loading import profile_loader
from testbed.profile.schema import Experiment
from tests.testbed.examples import write_profile

PROFILE = """
strategy = { name = "audg", interval = 1.0 }
[[devices]]
name = "pi"
profile = { seconds_per_sample = 0.001, power = { idle = 1.0, compute = 2.0 } }
link = { up = { mbit = 8.0 }, down = { mbit = 8.0 } }
schedule = [{ at = 1.0, speed = 0.5 }]
schedule_period = 5.0
[[events]]
at = 1.0
device = "*"
do = "rate"
value = 0.5
seconds = 1.0
"""
HUGE = (
    "dilation",
    "stop.seconds",
    "stop.delivery",
    "stop.improvement",
    "evaluation.every",
    "presence.heartbeat",
    "presence.timeout",
    "checkpoint.seconds",
    "transport.message_limit",
    "training.lr",
    "strategy.interval",
    "devices[0].suspend_max",
    "devices[0].tick",
    "devices[0].distance",
    "devices[0].schedule_period",
    "devices[0].schedule[0].at",
    "devices[0].schedule[0].speed",
    "devices[0].profile.seconds_per_sample",
    "devices[0].profile.power.compute",
    "devices[0].link.up.mbit",
    "devices[0].link.up.delay",
    "devices[0].link.up.jitter",
    "events[0].at",
    "events[0].seconds",
    "events[0].value",
)
TINY = (
    "dilation",
    "presence.heartbeat",
    "strategy.interval",
    "devices[0].tick",
    "devices[0].phi",
    "devices[0].schedule_period",
    "devices[0].schedule[0].speed",
    "devices[0].profile.seconds_per_sample",
    "devices[0].link.down.mbit",
    "events[0].value",
)
"""Keys whose small values make something repeat without an end, or take as long as huge ones."""


def refusal(folder: Path, *overrides: str) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        profile_loader.load(write_profile(folder, PROFILE), overrides)
    return caught.value


def test_the_profile_itself_is_valid(tmp_path: Path) -> None:
    profile_loader.load(write_profile(tmp_path, PROFILE))


@pytest.mark.parametrize("key", HUGE)
def test_a_huge_number_is_refused_with_its_limit(key: str, tmp_path: Path) -> None:
    found = refusal(tmp_path, f"{key}=1e300")
    assert found.key == key
    assert "is 1e+300; it must be " in found.problem
    assert "at most " in found.problem


@pytest.mark.parametrize("key", TINY)
def test_a_tiny_number_is_refused_with_its_limit(key: str, tmp_path: Path) -> None:
    found = refusal(tmp_path, f"{key}=1e-300")
    assert found.key == key
    assert "is 1e-300; " in found.problem
    assert "at least " in found.problem


@pytest.mark.parametrize("key", ["stop.versions", "training.batch", "presence.restart", "checkpoint.versions"])
def test_a_huge_whole_number_is_refused_with_its_limit(key: str, tmp_path: Path) -> None:
    found = refusal(tmp_path, f"{key}={2**62}")
    assert found.key == key
    assert f"is {2**62}; it must be at least " in found.problem


@pytest.mark.parametrize("words", [("--dilation", "1e300"), ("--seconds", "1e300"), ("--set", "dilation=1e-300")])
def test_an_option_is_refused_in_one_line(
    words: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", str(write_profile(tmp_path, PROFILE)), *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"error: {words[0]}")
    assert "it must be at least " in error or "it must be above 0 and at most " in error


def _numbers(cls: type[Any]) -> Iterator[tuple[str, Parameter]]:
    """Every key below a table that has a fraction as value, and is not a table itself."""
    for parameter in parameters_of(cls):
        kinds = (parameter.kind, *typing.get_args(parameter.kind))
        tables = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
        for table in tables:
            yield from _numbers(typing.cast("type[Any]", table))
        if not tables and float in kinds:
            yield f"{cls.__name__}.{parameter.name}", parameter


def test_every_fraction_in_a_profile_has_an_upper_limit() -> None:
    limits = {key: (found.allowed.at_most, found.allowed.below) for key, found in _numbers(Experiment)}
    assert len(limits) > 40
    assert [key for key, both in limits.items() if both == (None, None)] == ["StopWhen.improvement"]  # a loss


@dataclasses.dataclass(frozen=True, kw_only=True)
class Own:
    """Parameters of a user's own strategy that has no limits."""

    gain: float = param(1.0, "any number")
    count: int = param(1, "any whole number")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"gain": 1e31}, "gain is 1e+31; it must be at least -1e+30 and at most 1e+30"),
        ({"gain": -1e31}, "gain is -1e+31; it must be at least -1e+30 and at most 1e+30"),
        ({"count": 2**53 + 1}, "count is 9007199254740993; it must be at least -9.0072e+15 and at most 9.0072e+15"),
    ],
)
def test_a_parameter_without_limits_has_those_of_arithmetic(table: dict[str, Any], told: str) -> None:
    with pytest.raises(ProfileError, match=rf"mine: {told.replace('+', '[+]')}"):
        build(Own, table, "mine")
    assert build(Own, {"gain": -1e30, "count": -(2**53)}, "mine") == Own(gain=-1e30, count=-(2**53))


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_no_parameter_of_a_strategy_may_be_absurd(name: str) -> None:
    for key, found in _numbers(STRATEGIES[name]):
        with pytest.raises(ProfileError, match=r"it must be .*at most|it must be .*below"):
            build(STRATEGIES[name], {found.name: 1e300}, "mine")
        assert found.allowed.meaning, key
