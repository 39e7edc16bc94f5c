"""Capacity: the smallest dilation at which this host runs three fleets with a certificate PASS.

What admission plans (``plan``), and what real runs confirm: first at the planned dilation, then at smaller ones until
one does not PASS (larger ones if the planned one does not). A run takes about 20 s, a fleet two to four runs: 4 minutes
together; ``--quick`` runs only the planned dilation: 1 minute. ``--checkout DIR`` measures the code in another folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from tests.benchmarks.control import HUNDRED
from tests.benchmarks.fleets import COMMON, ROOT, carried_out
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, equal

_HOST_SECONDS, _QUICK_HOST_SECONDS = 20.0, 10.0
_LEAST_EMULATED_SECONDS = 3.0
_STEP = 0.8
_MOST_RUNS = 4
_MIXED: dict[str, Any] = {
    "devices": [
        {"profile": "rpi4", "link": "wifi", "count": 10, "drop": 0.05},
        {"profile": "rpi3bplus", "link": "lte", "count": 10, "drop": 0.05},
        {"profile": "jetson-nano", "link": "ethernet", "count": 5},
        {"profile": "phone-low", "link": "3g", "count": 5, "drop": 0.1, "suspend": 0.1, "suspend_max": 2.0},
    ],
    "task": {"name": "digits", "split": "iid"},
    "training": {"steps": 10, "lr": 0.05},
}


def measure(options: Options) -> Iterator[Figure]:
    quickstart = tomllib.loads((ROOT / "profiles/experiments/quickstart.toml").read_text(encoding="utf-8"))
    fleets = {"quickstart, 8 devices": quickstart, "30 mixed devices": _MIXED, "100 devices of control": HUNDRED}
    for row, table in fleets.items():
        planned = _planned(table, options.checkout or ROOT)
        yield Figure(row=row, column="planned dilation", value=planned)
        yield from _confirmed(row, table, planned, options)


def _planned(table: dict[str, Any], checkout: Path) -> float:
    """The smallest dilation that admission accepts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.toml"
        path.write_text(tomli_w.dumps(COMMON | table), encoding="utf-8")
        command = [sys.executable, str(checkout / "run_testbed.py"), "plan", str(path), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"plan failed with exit code {done.returncode}: {done.stderr}")
    return float(json.loads(done.stdout)["smallest_dilation"])


def _confirmed(row: str, table: dict[str, Any], planned: float, options: Options) -> Iterator[Figure]:
    """Runs at the planned dilation and beside it."""
    verdicts: dict[float, str] = {}
    dilation = planned
    for _ in range(1 if options.quick else _MOST_RUNS):
        verdicts[dilation] = _verdict(table, dilation, options)
        if dilation == planned:
            yield Figure(row=row, column="certificate at it", value=verdicts[planned], aim=equal("PASS"))
        down = verdicts[planned] == "PASS"
        if (verdicts[dilation] == "PASS") != down:
            break
        dilation *= _STEP if down else 1 / _STEP
    passed = [each for each, verdict in verdicts.items() if verdict == "PASS"]
    note = ", ".join(f"{each:.2f}: {verdict}" for each, verdict in sorted(verdicts.items(), reverse=True))
    yield Figure(row=row, column="smallest dilation that PASSed", value=min(passed) if passed else None, note=note)


def _verdict(table: dict[str, Any], dilation: float, options: Options) -> str:
    """The certificate of a run that takes about the same host time at any dilation."""
    host_seconds = options.seconds(_HOST_SECONDS, _QUICK_HOST_SECONDS)
    seconds = max(_LEAST_EMULATED_SECONDS, host_seconds / dilation)
    given = ("--no-admission", "--dilation", f"{dilation:.3f}")
    run = carried_out(table | {"stop": {"seconds": seconds}}, *given, checkout=options.checkout or ROOT)
    assert run is not None
    return run.verdict
