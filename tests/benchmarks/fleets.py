"""Profiles of benchmark runs, and starting them as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent

_UNTHROTTLED = """
name = "bench"
seed = 1
devices = [{{ profile = "host", link = "none", count = {devices} }}]
strategy = "{strategy}"
task = "tests.benchmarks.task:SharedDigits"

[training]
steps = 1
batch = 32
lr = 0.01

[stop]
seconds = {seconds}

[evaluation]
every = 100000
"""


def unthrottled(folder: Path, *, devices: int, strategy: str, seconds: float) -> Path:
    """Devices as fast as the host, no links: one SGD step of batch 32 of the 21,840-parameter CNN per update."""
    path = folder / f"{strategy}-{devices}.toml"
    path.write_text(_UNTHROTTLED.format(devices=devices, strategy=strategy, seconds=seconds), encoding="utf-8")
    return path


def start(profile: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "run_testbed.py"), "run", str(profile), "--out", str(out), "--format", "json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(run: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the end; the summary."""
    stdout, stderr = run.communicate()
    if run.returncode not in (0, 130):
        raise RuntimeError(f"a benchmark run failed with exit code {run.returncode}: {stderr}")
    summary: dict[str, Any] = json.loads(stdout)
    return summary
