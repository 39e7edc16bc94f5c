"""Profiles of benchmark runs, and how to start them as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tomli_w

from testbed.history import trace

ROOT = Path(__file__).parent.parent.parent

_UNTHROTTLED = """
name = "bench"
seed = 1
devices = [{{ profile = "host", link = "none", count = {devices} }}]
strategy = "{strategy}"
task = {{ name = "tests.benchmarks.task:SharedDigits", model = "{network}" }}

[training]
steps = 1
batch = 32
lr = 0.01

[stop]
seconds = {seconds}

[evaluation]
every = 100000
"""


COMMON: dict[str, Any] = {
    "name": "bench",
    "seed": 1,
    "strategy": "fedasync",
    "task": "tests.benchmarks.task:SharedDigits",
    "evaluation": {"every": 100000.0},
}
"""The task of timing runs: the 21,840-parameter CNN, without scores."""


def unthrottled(folder: Path, *, devices: int, strategy: str, seconds: float, network: str = "cnn") -> Path:
    """Devices as fast as the host, no links: one SGD step of batch 32 per update, of the 21,840-parameter CNN."""
    path = folder / f"{strategy}-{devices}.toml"
    text = _UNTHROTTLED.format(devices=devices, strategy=strategy, seconds=seconds, network=network)
    path.write_text(text, encoding="utf-8")
    return path


def start(
    profile: Path | str,
    out: Path,
    *options: str,
    checkout: Path = ROOT,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[str]:
    """Start a run; with the code of another checkout, and with additional variables, if they are given."""
    command = [sys.executable, str(checkout / "run_testbed.py"), "run", str(profile), "--out", str(out)]
    command += ["--format", "json", "--no-report", *options]
    variables = os.environ | dict(environment)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished run: its summary, and its events."""

    summary: dict[str, Any]
    events: list[trace.Event]

    @property
    def verdict(self) -> str:
        return str(self.summary["fidelity"]["verdict"])

    def invariants(self, *verdicts: str) -> list[str]:
        return [line["name"] for line in self.summary["fidelity"]["invariants"] if line["verdict"] in verdicts]


def carried_out(table: dict[str, Any], *options: str, checkout: Path = ROOT) -> Finished | None:
    """Run a profile given as a table; None if this host is too small for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.toml"
        path.write_text(tomli_w.dumps(COMMON | table), encoding="utf-8")
        run = start(path, Path(folder), *options, checkout=checkout)
        stdout, stderr = run.communicate()
        if run.returncode == 2 and "too small" in stderr:
            return None
        if run.returncode != 0:
            raise RuntimeError(f"a benchmark run failed with exit code {run.returncode}: {stderr}")
        summary: dict[str, Any] = json.loads(stdout)
        return Finished(summary=summary, events=list(trace.read(Path(summary["run_folder"]) / "trace.jsonl")))


def result(run: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the end. Returns the summary."""
    stdout, stderr = run.communicate()
    if run.returncode not in (0, 130):
        raise RuntimeError(f"a benchmark run failed with exit code {run.returncode}: {stderr}")
    summary: dict[str, Any] = json.loads(stdout)
    return summary
