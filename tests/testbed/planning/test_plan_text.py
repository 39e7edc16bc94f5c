"""The plan as text and as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from testbed.common.json_text import json_text
from testbed.host.core_plan import CorePlan
from testbed.host.survey import StepTime, Survey
from testbed.planning import plan_summary, plan_text, planner
from testbed.profile.schema import DeviceGroup, DeviceProfile, Experiment, LinkProfile

CORES = CorePlan(aggregator=0, evaluator=0, devices=(1, 1))
SURVEY = Survey(
    parameters=10_000,
    samples=(320, 320),
    steps=(StepTime(samples=32, seconds=0.016, alone=0.008, slow=0.032),),
    crowd={1: 2},
)


def shown(experiment: Experiment, plan: planner.Plan, fork_seconds: float | None = None) -> str:
    file = io.StringIO()
    plan_text.show(Console(file=file, width=200), experiment, plan, fork_seconds=fork_seconds)
    return file.getvalue()


def fleet_of(seconds_per_sample: float | None, name: str = "pi") -> Experiment:
    throttle = "none" if seconds_per_sample is None else "pace"
    profile = DeviceProfile(seconds_per_sample=seconds_per_sample, throttle=throttle)
    group = DeviceGroup(name=name, link=LinkProfile(), profile=profile, count=2)
    return Experiment(name="mixed", strategy="fedavg", devices=(group,))


def plan_of(seconds_per_sample: float | None, name: str = "pi") -> planner.Plan:
    plan = planner.plan(fleet_of(seconds_per_sample, name), SURVEY, CORES, 1.0)
    return replace(plan, memory_bytes=2 * 10**9, memory_free=8 * 10**9)


def test_a_plan_that_fits_shows_every_core_and_the_smallest_dilation() -> None:
    plan = plan_of(0.01)
    text = shown(fleet_of(0.01), plan)
    assert text.startswith("mixed: 2 devices, dilation 1\n")
    rows = [line.split() for line in text.splitlines()]
    assert ["core", "devices", "computing", "aggregator", "evaluator", "demand", "of"] in rows
    assert ["1", "2", f"{plan.demand:.2f}", "0.00", "0.00", f"{plan.demand:.2f}", "0.80"] in rows
    assert "memory: about 2.00 GB, 8.0 GB are free" in text
    assert "most demanding: pi-1, a step of 32 samples in 320 ms of host time, of which a core computes 32.0 ms" in text
    assert "a step of 32 on this host: 8.00 ms alone, 16.0 ms beside other processes (p90 32.0 ms, which" in text
    assert "it fits\n" in text
    assert f"smallest dilation that fits: {plan.smallest_dilation:g}\n" in text


def test_a_plan_names_the_devices_whose_speed_was_derived_from_flops() -> None:
    experiment = fleet_of(0.01)
    assert "derived" not in shown(experiment, plan_of(0.01))
    profile = DeviceProfile(seconds_per_sample={"digits": 0.01}, derived_speeds=("digits",))
    groups = tuple(replace(experiment.devices[0], name=name, profile=profile) for name in ("near", "far"))
    text = shown(replace(experiment, devices=groups), plan_of(0.01))
    assert "speed of near, far: derived from the FLOPs of digits, not measured\n" in text


def test_a_plan_that_does_not_fit_shows_why_and_what_would_fit() -> None:
    plan = plan_of(0.002)
    text = shown(fleet_of(0.002), plan)
    assert "it does not fit\n" in text
    assert str(planner.refusal(plan)) in text
    assert f"--dilation {plan.smallest_dilation:g}" in text


def test_a_plan_from_a_remembered_survey_says_how_old_it_is() -> None:
    plan = plan_of(0.01)
    old = msgspec.structs.replace(plan.survey, measured_at=1e9, age_seconds=300.0)
    assert "(5 min ago); --survey new measures again" in shown(fleet_of(0.01), replace(plan, survey=old))
    assert "ago" not in shown(fleet_of(0.01), plan)


def test_a_plan_without_throttled_devices_needs_no_dilation() -> None:
    plan = plan_of(None)
    text = shown(fleet_of(None), plan)
    assert "it fits" in text
    assert "most demanding" not in text
    assert "smallest dilation" not in text
    assert plan_text.demand(plan) == "demand: devices are not throttled: they use whatever CPU time is free"


def test_the_demand_of_a_run_is_one_line() -> None:
    fitting, forced = plan_of(0.01), plan_of(0.002)
    assert plan_text.demand(fitting).endswith(f"core 1 {fitting.demand:.2f} of at most 0.80, dilation 1")
    assert "too small" not in plan_text.demand(fitting)
    assert "host too small; running anyway (--no-admission)" in plan_text.demand(forced)


@pytest.mark.parametrize("speed", [0.01, 0.002, None])
def test_a_plan_is_json(speed: float | None) -> None:
    plan = plan_of(speed)
    summary = plan_summary.summary(plan)
    table = json.loads(json_text(summary))
    assert table == json.loads(json.dumps(msgspec.to_builtins(summary, str_keys=True), allow_nan=False))
    assert (table["fits"], table["dilation"], table["capacity"]) == (plan.fits, 1.0, planner.CAPACITY)
    assert table["smallest_dilation"] == plan.smallest_dilation
    assert [row["device"] for row in table["devices"]] == [step.device.name for step in plan.steps]
    assert [row["demand"] for row in table["cores"]] == [core.total for core in plan.cores]
    assert table["survey"]["crowd"] == {"1": 2}


def test_the_start_of_a_fleet_is_estimated_on_a_calibrated_host() -> None:
    assert "start-up: 0.5 s for 2 forks, after the template" in shown(fleet_of(0.01), plan_of(0.01), 0.25)
    assert "start-up" not in shown(fleet_of(0.01), plan_of(0.01))


@pytest.mark.parametrize("speed", [0.01, 0.0001])
def test_a_device_name_that_looks_like_markup_is_shown_as_it_is(speed: float) -> None:
    assert "[red]x-1" in shown(fleet_of(speed, "[red]x"), plan_of(speed, "[red]x"))


def test_a_device_name_that_looks_like_an_emoji_is_shown_as_it_is() -> None:
    assert ":bomb:-1" in shown(fleet_of(0.01, ":bomb:"), plan_of(0.01, ":bomb:"))
