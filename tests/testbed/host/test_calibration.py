"""Timing steps in forked children. Each test runs in an interpreter of its own, with one thread like the template."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.host import calibration
from testbed.host.calibration import PressureMeter

ROOT = Path(__file__).parents[3]
SPINNING = """
import json, os, sys, time
import psutil
from testbed.host import calibration
from testbed.host.calibration import PressureMeter

def steps(samples):
    while True:
        end = time.thread_time() + samples * 2.5e-4
        while time.thread_time() < end:
            pass
        yield None

def children():
    return len(psutil.Process().children(recursive=True))
"""


def output_of(script: str) -> Any:
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def test_steps_are_timed_in_proportion_to_their_cpu_seconds_alone_and_with_others() -> None:
    found = output_of(
        SPINNING
        + """
core = min(os.sched_getaffinity(0))
timed = calibration.measure(steps, 32, {core: 3}, calibration.PressureMeter())
rows = [[step.samples, step.alone, step.seconds, step.slow] for step in timed]
print(json.dumps({"rows": rows, "children": children()}))
"""
    )
    small, large = found["rows"]
    assert (small[0], large[0]) == (4, 32)
    for column in (1, 2):  # eight times the samples; three processes on a core need no more CPU seconds
        assert 4 < large[column] / small[column] < 16
        assert 0.5 < large[column] / 8e-3 < 2
    assert all(slow >= usual for _, _, usual, slow in found["rows"])
    assert found["children"] == 0


def test_steps_of_this_moment_are_compared_with_remembered_ones() -> None:
    script = """
from testbed.host.survey import StepTime
core = min(os.sched_getaffinity(0))
timed = [StepTime(samples=n, seconds=9.0, alone=n * 2.5e-4 / 4, slow=9.0) for n in (4, 32)]
print(json.dumps(calibration.slowdown(steps, timed, core, calibration.PressureMeter())))
"""
    assert 3.9 < output_of(SPINNING + script) < 8  # a step takes four times what is remembered


def test_a_batch_of_one_is_timed_once() -> None:
    script = """meter = calibration.PressureMeter()
[one] = calibration.measure(steps, 1, {min(os.sched_getaffinity(0)): 1}, meter)
print(json.dumps(one.samples))"""
    assert output_of(SPINNING + script) == 1


@pytest.mark.slow
def test_only_a_part_of_a_long_step_is_timed_and_the_whole_is_extrapolated() -> None:
    found = output_of(
        SPINNING
        + """
from testbed.host.survey import Survey
begun = psutil.Process().cpu_times()
timed = calibration.measure(steps, 40_000, {min(os.sched_getaffinity(0)): 1}, calibration.PressureMeter())
whole = Survey(steps=timed).step_seconds(40_000)
used = psutil.Process().cpu_times().children_user - begun.children_user
print(json.dumps([[step.samples for step in timed], whole, used]))
"""
    )
    (small, large), whole, used = found
    assert 1_000 < large <= 2_000  # half a second, at a quarter of a millisecond each
    assert small == large // 8
    assert whole == pytest.approx(10.0, rel=0.3)
    assert used < 10  # CPU seconds: a step of all samples alone would take as long


def test_calibration_does_not_change_core_or_priority_of_its_own_process() -> None:
    found = output_of(
        SPINNING
        + """
before = sorted(os.sched_getaffinity(0)), os.nice(0)
calibration.measure(steps, 1, {min(os.sched_getaffinity(0)): 1}, calibration.PressureMeter())
print(json.dumps([before, [sorted(os.sched_getaffinity(0)), os.nice(0)]]))
"""
    )
    assert found[0] == found[1]


def test_steps_that_end_early_are_an_error_with_a_cause() -> None:
    found = output_of(
        SPINNING
        + """
try:
    calibration.measure(lambda samples: iter([1, 2]), 8, {min(os.sched_getaffinity(0)): 2}, PressureMeter())
except RuntimeError as error:
    print(json.dumps([str(error), children()]))
"""
    )
    assert found == ["a process that timed local steps ended early; free memory, or use a smaller task", 0]


CHILDREN = """
def fail():
    raise ValueError("no")

def die():
    os.kill(os.getpid(), 9)

works = {
    "pid": lambda: os.getpid() != parent, "failing": fail, "killed": die, "no JSON": lambda: object(),
    "leaving": lambda: sys.exit(3), "long": lambda: "x" * 1_000_000,
}
parent = os.getpid()
results = {name: calibration.in_child(work) for name, work in works.items()}
results["long"] = len(results["long"])
print(json.dumps(results | {"children": children()}))
"""


def test_a_child_returns_its_result_and_none_if_it_fails() -> None:
    assert output_of(SPINNING + CHILDREN) == {
        "pid": True,
        "failing": None,
        "killed": None,
        "no JSON": None,
        "leaving": None,
        "long": 1_000_000,
        "children": 0,
    }


def test_the_pressure_is_the_share_of_the_time_in_which_a_process_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    moments, waited = iter([10.0, 12.0]), iter([3.0, 3.5])
    monkeypatch.setattr(calibration, "pressure_seconds", lambda: next(waited))
    monkeypatch.setattr("time.monotonic", lambda: next(moments))
    meter = PressureMeter()
    with meter:
        assert meter.share is None
    assert meter.share == pytest.approx(0.25)


def test_the_pressure_is_measured_while_a_few_small_steps_are_computed() -> None:
    script = """
seconds = iter([1.0, 1.5])
calibration.pressure_seconds = lambda: next(seconds)
meter, before = PressureMeter(), psutil.Process().cpu_times().children_user
calibration.feel_pressure(steps, 40_000, meter)
used = psutil.Process().cpu_times().children_user - before
print(json.dumps([meter.share, used, children()]))
"""
    share, used, children = output_of(SPINNING + script)
    assert (share > 0, children) == (True, 0)
    assert used < 5  # CPU seconds: a step of all samples would take ten


def test_a_kernel_that_reports_no_pressure_leaves_it_unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "pressure_seconds", lambda: None)
    meter = PressureMeter()
    with meter:
        pass
    assert meter.share is None
