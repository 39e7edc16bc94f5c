"""An ordinary user may enter SCHED_IDLE, but not leave it again."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[3]
LEAVE = """
import os
from testbed.host.priority import can_leave_idle, run_only_when_idle

expected = can_leave_idle()
run_only_when_idle()
try:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    allowed = True
except PermissionError:
    allowed = False
print(expected == allowed, allowed)
"""


def answer(before: Callable[[], None] | None = None) -> list[str]:
    """Whether the expectation was right, and whether the process could leave SCHED_IDLE."""
    words = [sys.executable, "-c", LEAVE]
    return subprocess.check_output(words, cwd=ROOT, preexec_fn=before, text=True, timeout=300).split()


def drop_privileges() -> None:
    """Take CAP_SYS_NICE from root, too, after the exec that follows (PR_CAPBSET_DROP)."""
    ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_NICE, (0, 0))


def test_a_process_knows_whether_it_may_leave_sched_idle_before_it_enters_it() -> None:
    assert answer()[0] == "True"


def test_a_process_without_privileges_may_not_leave_sched_idle() -> None:
    assert answer(drop_privileges) == ["True", "False"]
