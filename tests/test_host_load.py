"""Timing is judged on a quiet host only, and the figures that say so are those of other programs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import host_load
from tests.conftest import TOO_BUSY
from tests.host_load import HostLoad, Reading

ROOT = Path(__file__).parents[1]
TIMED = """
import pytest

@pytest.mark.timing
def test_timing():
    assert {}
"""
SESSION = """
import sys, pytest
from tests import host_load
host_load.MOST_WORK, host_load.MOST_PRESSURE = {before}, {before}

class BusyMeanwhile:
    def pytest_runtest_call(self, item):
        host_load.MOST_WORK = {during}

sys.exit(pytest.main(["-p", "tests.conftest", *sys.argv[1:]], plugins=[BusyMeanwhile()]))
"""
QUIET, BUSY = "float('inf')", "-1.0"


def session(folder: Path, *, before: str, during: str, holds: bool, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run one timing test on a host that counts as quiet or busy."""
    (folder / "test_it.py").write_text(TIMED.format(holds), encoding="utf-8")
    words = [sys.executable, "-c", SESSION.format(before=before, during=during), "-ra", str(folder), *options]
    markers = ["--override-ini", "markers=timing: x", "--rootdir", str(folder), "-p", "no:cacheprovider"]
    done = subprocess.run([*words, *markers], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout


def test_a_timing_test_is_skipped_with_the_figure_on_a_busy_host(tmp_path: Path) -> None:
    code, text = session(tmp_path, before=BUSY, during=BUSY, holds=False)
    assert code == 0
    assert "SKIPPED" in text
    assert "timing was not judged: other programs used " in text


def test_a_timing_test_that_fails_is_skipped_if_others_were_busy_meanwhile(tmp_path: Path) -> None:
    code, text = session(tmp_path, before=QUIET, during=BUSY, holds=False)
    assert code == 0
    assert "during the test; it found: " in text


@pytest.mark.parametrize(("holds", "result"), [(True, 0), (False, 1)])
def test_a_timing_test_is_judged_on_a_quiet_host(tmp_path: Path, holds: bool, result: int) -> None:
    assert session(tmp_path, before=QUIET, during=QUIET, holds=holds)[0] == result


def test_a_session_for_timing_refuses_a_busy_host_with_a_code_of_its_own(tmp_path: Path) -> None:
    code, text = session(tmp_path, before=BUSY, during=BUSY, holds=True, options=("--refuse-busy",))
    assert code == TOO_BUSY
    assert "timing was not judged: other programs used " in text


def test_the_work_of_others_is_what_the_cores_did_without_the_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    found = host_load.between(Reading(10.0, 1.0, 5.0, 2.0), Reading(20.0, 1.5, 16.0, 8.0))
    assert found == HostLoad(cores=2, pressure=0.05, work=0.25)
    assert found.problem(own_processes=True) == "other programs used 25% of 2 cores (at most 10%)"


def test_pressure_counts_only_while_nothing_of_the_test_runs() -> None:
    found = HostLoad(cores=2, pressure=0.4, work=0.0)
    assert found.problem(own_processes=True) == ""
    assert found.problem(own_processes=False) == "a process waited for a core 40% of the time (at most 10%)"


def test_a_host_that_reports_nothing_is_not_called_busy() -> None:
    assert HostLoad(cores=2, pressure=None, work=None).problem(own_processes=False) == ""


def test_the_own_work_of_a_process_is_not_that_of_others() -> None:
    first = host_load.read()
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    last = host_load.read()
    assert last.own - first.own >= 0.29
    assert last.busy is None or first.busy is None or last.busy - first.busy >= 0.2
