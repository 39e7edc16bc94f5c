"""Figures of the kernel, and None for those that it does not report."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.host import kernel
from testbed.host.kernel import UsageMeter
from tests.live.runs import with_this_code

HAS_SCHEDSTAT = Path("/proc/self/schedstat").exists()
NO_PROCESS = 99_999_999  # above any pid_max


def burn(seconds: float) -> None:
    """Use CPU seconds in this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.skipif(not HAS_SCHEDSTAT, reason="this kernel has no schedstat")
def test_a_meter_counts_the_cpu_seconds_of_its_process() -> None:
    meter = UsageMeter()
    before = meter()
    burn(0.1)
    after = meter()
    meter.close()
    assert before is not None
    assert after is not None
    assert 0.05 < after.cpu - before.cpu < 0.2
    assert after.waited >= before.waited >= 0.0


@pytest.mark.skipif(not HAS_SCHEDSTAT, reason="this kernel has no schedstat")
def test_a_meter_of_another_process_reads_that_process() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as idle:
        meter = UsageMeter(idle.pid)
        before = meter()
        burn(0.1)
        after = meter()
        meter.close()
        idle.communicate()
    assert before is not None
    assert after is not None
    assert after.cpu - before.cpu < 0.05


def test_a_closed_meter_measures_nothing_and_may_be_closed_twice() -> None:
    meter = UsageMeter()
    meter.close()
    meter.close()
    assert meter() is None


def test_a_closed_meter_keeps_no_file_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    meter = UsageMeter()
    meter.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_does_not_exist_is_not_measured() -> None:
    assert UsageMeter(NO_PROCESS)() is None


@pytest.mark.skipif(not HAS_SCHEDSTAT, reason="this kernel has no schedstat")
def test_a_process_that_has_died_is_not_measured() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as short:
        meter = UsageMeter(short.pid)
        short.communicate()
    assert meter() is None


@pytest.mark.skipif(not HAS_SCHEDSTAT, reason="this kernel has no schedstat")
def test_a_kernel_that_reports_only_zeros_does_not_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = UsageMeter()
    monkeypatch.setattr(kernel.os, "pread", lambda *_: b"0 0 0\n")
    assert meter() is None


# ---- files


PRESSURE = "some avg10=1.50 avg60=0.70 avg300=0.10 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=77\n"


def test_pressure_is_the_first_total_in_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpu"
    file.write_text(PRESSURE)
    monkeypatch.setattr(kernel, "_PRESSURE", file)
    assert kernel.pressure_seconds() == pytest.approx(2.5)


def test_pressure_that_is_switched_off_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpu"
    file.write_text("")
    monkeypatch.setattr(kernel, "_PRESSURE", file)
    assert kernel.pressure_seconds() is None


@pytest.mark.parametrize(("constant", "ask"), [("_PRESSURE", kernel.pressure_seconds), ("_GOVERNOR", kernel.governor)])
@pytest.mark.parametrize("place", ["absent", "a folder"])
def test_a_figure_without_a_file_is_not_measured(
    constant: str, ask: Callable[[], object], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, constant, tmp_path / "absent" if place == "absent" else tmp_path)
    assert ask() is None


def test_the_name_of_the_governor_has_no_newline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "scaling_governor"
    file.write_text("powersave\n")
    monkeypatch.setattr(kernel, "_GOVERNOR", file)
    assert kernel.governor() == "powersave"


def test_a_processor_has_the_first_model_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Cortex: A72\nprocessor\t: 1\nmodel name\t: other\n")
    monkeypatch.setattr(kernel, "_CPUINFO", file)
    assert kernel.processor() == "Cortex: A72"


def test_a_processor_without_a_model_name_has_the_name_of_its_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_CPUINFO", tmp_path / "absent")
    assert kernel.processor() == platform.machine()


WITHOUT_FILES = """
import os, resource, sys
from testbed.host import kernel
from testbed.host.kernel import ExitWatch, UsageMeter
watch, other = ExitWatch(), int(sys.argv[1])
kernel.is_computing(other)  # psutil has read what it reads once
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1,) * 2)
try:
    os.open("/dev/null", os.O_RDONLY)
except OSError as problem:
    assert problem.errno == 24, problem
else:
    raise AssertionError("there is a free descriptor")
watch.watch("other", other)
print(kernel.is_computing(other), kernel.is_runnable(other), UsageMeter(other)(), watch.ended())
"""


def test_without_a_free_descriptor_a_process_counts_as_alive_and_nothing_raises() -> None:
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_FILES, str(os.getpid())],
        capture_output=True,
        text=True,
        env=with_this_code(),
        check=False,
    )
    assert (found.stdout, found.stderr) == ("True True None []\n", "")


def test_a_process_that_has_ended_is_neither_computing_nor_runnable() -> None:
    assert not kernel.is_computing(NO_PROCESS)
    assert not kernel.is_runnable(NO_PROCESS)


@pytest.mark.parametrize("state", [b"S", b"R"])
def test_the_calling_thread_does_not_count_as_another_one(state: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    states = {str(threading.get_native_id()): b"R", "7": state}
    monkeypatch.setattr(kernel.os, "listdir", lambda folder: [*states])
    monkeypatch.setattr(kernel, "_thread_state", lambda pid, thread: states[thread])
    assert kernel.is_another_thread_runnable() is (state == b"R")
