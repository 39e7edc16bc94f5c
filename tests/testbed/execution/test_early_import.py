"""The imports of the report while a run lasts. In an interpreter of its own: this one has them already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BESIDE = """
import os, sys, threading
from testbed.execution import early_import

before = os.sched_getaffinity(0), os.sched_getscheduler(0)
core = max(os.sched_getaffinity(0))
assert "matplotlib" not in sys.modules
with early_import.imported_beside(core):
    [thread] = [each for each in threading.enumerate() if each is not threading.current_thread()]
    thread.join(60)
assert "testbed.report.report_page" in sys.modules
assert (os.sched_getaffinity(0), os.sched_getscheduler(0)) == before
with early_import.imported_beside(core):
    pass
"""


@pytest.mark.timing  # its thread runs only when a core is idle
def test_the_report_is_imported_in_the_background_and_the_launcher_keeps_its_cores_and_priority() -> None:
    subprocess.run([sys.executable, "-c", BESIDE], cwd=ROOT, check=True, timeout=120)
