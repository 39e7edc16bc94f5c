"""A run that is too large for the host is refused before it starts, with the dilation that would fit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.loading.profile_loader import load
from tests.live.runs import command, complete, write_profile

pytestmark = pytest.mark.live

DENSE: list[dict[str, Any]] = [{"profile": "rpi5", "link": "wifi", "count": 40, "seconds_per_sample": 5e-4}]
"""None of them is too fast for a core, even of a crowded host, but together they are too many for two."""
FAST: list[dict[str, Any]] = [{"profile": "rpi5", "link": "wifi", "count": 2, "seconds_per_sample": 5e-6}]
"""Faster than any core: Python alone needs longer for a step."""
LIGHT: list[dict[str, Any]] = [{"profile": "rpi3bplus", "link": "wifi", "count": 2, "seconds_per_sample": 0.02}]


@pytest.fixture(autouse=True)
def two_cores() -> Iterator[None]:
    """Let runs use two cores only: one for all devices."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    yield
    os.sched_setaffinity(0, before)


def test_a_run_that_does_not_fit_is_refused_with_figures_and_the_smallest_dilation(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, devices=DENSE, dilation=1.0), "--quiet")
    assert (outcome.code, outcome.stdout) == (2, "")
    [line] = outcome.stderr.splitlines()
    found = re.match(
        r"error: this host is too small: the demand on core \d+ is ([\d.]+) \(\d+ devices ([\d.]+), aggregator"
        r" ([\d.]+)\), and 0\.80 is the most that keeps deadlines; --dilation ([\d.]+) is the smallest that fits",
        line,
    )
    assert found is not None, line
    demand, devices, aggregator, dilation = map(float, found.groups())
    assert demand > 0.8
    assert demand == pytest.approx(devices + aggregator, abs=0.02)
    # less than for this core alone: at that dilation the aggregator is less busy, and devices may share its core
    assert 1 < dilation <= 1.02 * demand / 0.8
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]  # no run folder


def test_a_device_that_is_faster_than_a_core_of_this_host_is_named(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, devices=[*LIGHT, *FAST], dilation=1.0), "--quiet")
    assert outcome.code == 2
    assert "error: devices[1]: rpi5-1 must compute a step of 32 samples in 0.16 ms, but a core of this host" in (
        outcome.stderr
    )
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_a_plan_that_does_not_fit_says_what_would_and_ends_with_code_1(tmp_path: Path) -> None:
    profile = str(write_profile(tmp_path, devices=DENSE, dilation=1.0))
    refused = command("plan", profile, "--format", "json")
    table = json.loads(refused.stdout)
    assert (refused.returncode, table["fits"], table["dilation"], table["capacity"]) == (1, False, 1.0, 0.8)
    assert max(core["demand"] for core in table["cores"]) > 0.8
    assert len(table["devices"]) == 40
    # far more than the smallest: the next calibration may measure a slower host
    slower = command("plan", profile, "--dilation", str(10 * table["smallest_dilation"]))
    assert slower.returncode == 0
    assert "it fits\nsmallest dilation that fits: " in slower.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_a_plan_is_printed_as_text(tmp_path: Path) -> None:
    plan = command("plan", str(write_profile(tmp_path, devices=DENSE, dilation=1.0)))
    assert plan.returncode == 1
    assert plan.stdout.startswith("small: 40 devices, dilation 1\n")
    for words in ("most demanding: rpi5-", "it does not fit", "is the smallest that fits", "GB are free"):
        assert words in plan.stdout
    assert "Traceback" not in plan.stderr


def test_a_dilation_of_auto_makes_it_fit_and_is_kept_with_the_run(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, devices=FAST, dilation="auto", stop={"versions": 2}))
    assert outcome.code == 0
    assert outcome.summary["dilation"] > 1.0
    assert load(outcome.folder / "profile.toml").dilation == outcome.summary["dilation"]
    assert max(outcome.json("meta.json")["demand"].values()) <= 0.8


def test_without_admission_a_run_starts_and_its_certificate_fails(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, devices=FAST, dilation=1.0, stop={"versions": 2})
    outcome = complete(profile, "--no-admission")
    assert outcome.code == 0
    assert "host too small; running anyway (--no-admission)" in outcome.stdout
    verdicts = {line["name"]: line["verdict"] for line in outcome.summary["fidelity"]["invariants"]}
    assert (verdicts["admission"], outcome.summary["fidelity"]["verdict"]) == ("FAIL", "FAIL")


def test_a_fleet_that_is_not_throttled_is_not_planned(tmp_path: Path) -> None:
    groups = [{"profile": "host", "link": "none", "count": 4}]
    outcome = complete(write_profile(tmp_path, devices=groups, dilation=1.0, stop={"versions": 5}))
    assert outcome.code == 0
    assert "demand: devices are not throttled: they use whatever CPU time is free" in outcome.stdout
    assert outcome.summary["computing"] is None


@pytest.mark.timing
def test_an_overcommitted_fleet_fails_and_in_dilated_time_it_keeps_its_deadlines(tmp_path: Path) -> None:
    """The negative control: a certificate must be able to fail."""
    fleet = [{"profile": "rpi5", "link": "wifi", "count": 40}]
    profile = write_profile(tmp_path, devices=fleet, dilation=1.0, stop={"seconds": 3.0})
    figures = {}
    for option in ("--no-admission", "--dilation=auto"):
        summary = json.loads(complete(profile, option, "--format", "json").stdout)
        lines = {line["name"]: line for line in summary["fidelity"]["invariants"]}
        figures[option] = lines["step time"]["figures"]
        if option == "--no-admission":
            assert summary["fidelity"]["verdict"] == lines["step time"]["verdict"] == "FAIL"
            assert lines["step time"]["worst"].startswith("rpi5-")
    crowded, dilated = figures.values()
    assert crowded["missed"] > 0.3
    assert dilated["missed"] < crowded["missed"] / 4
    assert dilated["worst_round_trips"] < crowded["worst_round_trips"] / 4
