"""Commands in a process with limited memory and time: the machine of whoever tests must survive a failure."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MOST_MEMORY = 3 << 30
"""Bytes of address space: imports alone need a third of it."""
PATIENCE = 300.0


def executed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "run_testbed.py"), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY)),
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )


def refusal(*words: str | Path) -> str:
    """The one line that a command prints; its exit code must be 2."""
    done = executed(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr[-2000:]
    return done.stderr
