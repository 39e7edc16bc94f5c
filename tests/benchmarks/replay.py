"""How exact a replay is: 20 devices are recorded, replayed twice in mode strict, and once in mode schedule.

Then two other strategies on the same recording: every job that all runs did must have met the same delays.
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
from tests.benchmarks.report import Result

_P50_SECONDS, _P99_SECONDS, _IN_ORDER = 0.001, 0.005, 0.95
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


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile = folder / "fleet.toml"
        profile.write_text(tomli_w.dumps(FLEET), encoding="utf-8")
        recorded = _run(profile, folder / "recorded")
        replay = ("--replay", str(recorded))
        yield Result(what=f"recorded, dilation {_summary(recorded)['dilation']:.2f}", measured=_fidelity(recorded))
        for attempt in (1, 2):
            again = _run(profile, folder / f"strict-{attempt}", *replay, "--replay-mode", "strict")
            yield _strict(f"strict, attempt {attempt}", _summary(again)["replay"])
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
    return f"fidelity {_summary(folder)['fidelity']['verdict']}"


def _strict(what: str, found: dict[str, Any]) -> Result:
    kept = [found[key] for key in ("same_arrivals", "same_staleness", "same_model")]
    measured = f"{found['arrivals']} arrivals; same order, stalenesses, model: {', '.join(map(str, kept))}"
    return Result(what=what, measured=measured, target="the same run", reached=all(kept))


def _schedule(summary: dict[str, Any]) -> Iterator[Result]:
    found, delays = summary["replay"], summary["replay"]["delays"]["all"]
    share = found["arrivals_in_order"]
    yield Result(
        what=f"schedule, {found['arrivals_common']} arrivals, fidelity {summary['fidelity']['verdict']}",
        measured=f"{share:.1%} in the recorded order",
        target=f"≥ {_IN_ORDER:.0%}",
        reached=share >= _IN_ORDER,
    )
    for name, most in (("p50_s", _P50_SECONDS), ("p99_s", _P99_SECONDS)):
        yield Result(
            what=f"schedule, |obtained − recorded| of {delays['count']} delays, {name.removesuffix('_s')}",
            measured=f"{delays[name] * 1e3:.3f} ms",
            target=f"≤ {most * 1e3:g} ms",
            reached=delays[name] <= most,
        )


def _paired(folders: list[Path]) -> Result:
    found = trace_comparison.compare([trace_reading.file_of(folder) for folder in folders], "obtained", None)
    return Result(
        what="one recording and three strategies on it",
        measured=found.verdict,
        target="equal delays",
        reached=found.equal,
    )
