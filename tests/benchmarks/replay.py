"""How exact a replay is: 20 devices are recorded, replayed twice in mode strict, and once in mode schedule.

Then two other strategies on the same recording: every job that all runs did must have met the same delays.
Takes 4 minutes; ``--quick`` (10 emulated seconds instead of 30): one and a half.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from testbed.analysis import trace_reading
from testbed.trace_tools import trace_comparison
from tests.benchmarks.fleets import result, start
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_least, at_most, equal

_P50_MS, _P99_MS, _IN_ORDER = 1.0, 5.0, 95.0
_QUICK_SECONDS = 10.0
FLEET: dict[str, Any] = {
    "name": "recorded",
    "seed": 1,
    "dilation": "auto",
    "strategy": "fedasync",
    "training": {"steps": 10, "batch": 32, "lr": 0.1, "momentum": 0.5},
    "devices": [
        {"profile": "rpi3bplus", "link": "wifi", "count": 6, "drop": 0.05, "suspend": 0.1, "suspend_max": 1.0},
        {"profile": "rpi4", "link": "lte", "count": 6, "drop": 0.05},
        {"profile": "jetson-nano", "link": "5g", "count": 4},
        {"profile": "phone-low", "link": "3g", "count": 4, "drop": 0.1, "suspend": 0.2, "suspend_max": 1.0},
    ],
    "stop": {"seconds": 30.0},
}


def measure(options: Options) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile = folder / "fleet.toml"
        seconds = options.seconds(FLEET["stop"]["seconds"], _QUICK_SECONDS)
        profile.write_text(tomli_w.dumps(FLEET | {"stop": {"seconds": seconds}}), encoding="utf-8")
        recorded = _run(profile, folder / "recorded")
        replay = ("--replay", str(recorded))
        yield Figure(row="dilation of the recorded run", value=_summary(recorded)["dilation"])
        yield Figure(row="certificate of the recorded run", value=_fidelity(recorded))
        for attempt in (1, 2):
            again = _run(profile, folder / f"strict-{attempt}", *replay, "--replay-mode", "strict")
            yield _strict(f"strict, attempt {attempt}: the same run", _summary(again)["replay"])
        same = _run(profile, folder / "schedule", *replay)
        yield from _schedule(_summary(same))
        others = [
            _run(profile, folder / strategy, *replay, "--strategy", strategy) for strategy in ("fedbuff", "asyncfeded")
        ]
        yield _paired([recorded, same, *others])


def _run(profile: Path, out: Path, *options: str) -> Path:
    result(start(profile, out, *options))
    [folder] = out.iterdir()
    return folder


def _summary(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def _fidelity(folder: Path) -> str:
    return str(_summary(folder)["fidelity"]["verdict"])


def _strict(row: str, found: dict[str, Any]) -> Figure:
    kept = {"arrivals": "same_arrivals", "stalenesses": "same_staleness", "model": "same_model"}
    other = [name for name, key in kept.items() if not found[key]]
    value = f"other {', '.join(other)}" if other else "yes"
    return Figure(row=row, value=value, aim=equal("yes"), note=f"{found['arrivals']} arrivals")


def _schedule(summary: dict[str, Any]) -> Iterator[Figure]:
    found, delays = summary["replay"], summary["replay"]["delays"]["all"]
    note = f"{found['arrivals_common']} arrivals, certificate {summary['fidelity']['verdict']}"
    share = 100 * found["arrivals_in_order"]
    yield Figure(row="schedule: in the recorded order", value=share, unit="%", aim=at_least(_IN_ORDER), note=note)
    for name, most in (("p50", _P50_MS), ("p99", _P99_MS)):
        value, row = 1e3 * delays[f"{name}_s"], f"schedule: {name} of obtained − recorded delay"
        yield Figure(row=row, value=value, unit="ms", aim=at_most(most))


def _paired(folders: list[Path]) -> Figure:
    found = trace_comparison.compare([trace_reading.file_of(folder) for folder in folders], "obtained", None)
    value = "equal" if found.equal else "not equal"
    return Figure(
        row="delays of three strategies on one recording", value=value, aim=equal("equal"), note=found.verdict
    )
