"""Run folders, written by hand: one device, and each of its updates makes a version that is scored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from testbed.comparison import compared_runs, goal
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.comparison import Comparison, compare
from testbed.history import trace
from testbed.history.events.watts import Watts
from testbed.history.trace import TraceWriter
from tests.testbed.traces.files import printed

BYTES = 1_000_000
"""Bytes of a model, in each direction."""
PROFILE: dict[str, Any] = {
    "name": "demo",
    "task": {"name": "digits", "alpha": 0.5},
    "training": {"lr": 0.1, "steps": 4},
    "stop": {"seconds": 10.0},
    "devices": [{"name": "a", "count": 1, "profile": {"title": "Something", "seconds_per_sample": 0.001}}],
    "replay": {"mode": "schedule", "end": "loop"},
}
FAST, SLOW = (0.5, 0.75, 0.875), (0.25, 0.5, 0.625)


def write(
    folder: Path,
    strategy: str = "fedavg",
    scores: Sequence[float] = (0.25, 0.5, 0.75),
    *,
    seed: int = 1,
    every: float = 2.0,
    parameters: dict[str, Any] | None = None,
    replays: Path | None = None,
    ended: bool = True,
    watts: bool = True,
    metric: str = "accuracy",
    profile: dict[str, Any] | None = None,
    device: str = "a",
    initial: float | None = None,
) -> Path:
    """The n-th version is made at n × ``every`` seconds; ``initial`` is the score of version 0. ``profile``: keys that
    are not as in PROFILE.
    """
    folder.mkdir(parents=True)
    writer = TraceWriter(folder / "trace.jsonl")
    writer.write(
        trace.Header(
            t=0.0,
            schema=trace.SCHEMA,
            name="demo",
            strategy=strategy,
            parameters=parameters or {},
            seed=seed,
            dilation=1.0,
            demand=0.5,
            pressure=None,
            started="2026",
            host="h",
            replay="schedule" if replays else "",
        )
    )
    power = Watts(idle=1.0, compute=1.0, suspended=1.0) if watts else None
    writer.write(trace.Joined(t=0.0, device=device, pid=1, cores=[0], samples=10, watts=power))
    if initial is not None:
        writer.write(trace.Scored(t=0.0, version=0, made=0.0, metrics={metric: initial}))
    for version, score in enumerate(scores, 1):
        _version(writer, device, version, every)
        metrics = {metric: score} | ({"loss": round(1 - score, 6)} if metric == "accuracy" else {})
        made = version * every
        writer.write(trace.Scored(t=made, version=version, made=made, metrics=metrics))
    if ended:
        end = len(scores) * every
        writer.write(trace.Stopped(t=end, reason="over", version=len(scores), in_flight=0))
    writer.close()
    table = PROFILE | {"seed": seed, "strategy": {"name": strategy, **(parameters or {})}} | (profile or {})
    if replays is not None:
        table["replay"] = {"trace": str(replays), "mode": "schedule", "end": "loop"}
    (folder / "profile.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    return folder


def _version(writer: TraceWriter, device: str, version: int, every: float) -> None:
    """A job that takes the whole time of a version: a quarter for each transfer, half for computing."""
    began, made, quarter = (version - 1) * every, version * every, every / 4
    ticket: dict[str, Any] = {"device": device, "ticket": version}
    transfer: dict[str, Any] = ticket | {
        "job": version - 1,
        "attempt": 0,
        "asked": quarter,
        "obtained": quarter,
        "bytes": BYTES,
        "dropped": False,
    }
    writer.write(trace.Dispatched(t=began, version=version - 1, steps=4, **ticket))
    writer.write(trace.Downloaded(t=began + quarter, sent=began, **transfer))
    trained: dict[str, Any] = {"steps": 4, "asked": 2 * quarter, "obtained": 2 * quarter, "checks": 4, "misses": []}
    writer.write(trace.Trained(t=began + 3 * quarter, **ticket, **trained))
    writer.write(trace.Uploaded(t=made, sent=began + 3 * quarter, **transfer))
    times: dict[str, Any] = {"t": made, "due": made, "received": made, "handled": made}
    writer.write(trace.Arrived(**times, **ticket, bytes=BYTES, version=version - 1, staleness=version % 2, loss=0.5))
    writer.write(trace.Aggregated(t=made, version=version, tickets=[version], weights=[1.0], staleness=[version % 2]))


def six(folder: Path) -> list[Path]:
    """Three seeds each of a fast and a slow strategy; one run of the slow one does not reach 0.6."""
    return [
        *(write(folder / f"fast{seed}", "fedasync", FAST, seed=seed) for seed in (1, 2, 3)),
        *(write(folder / f"slow{seed}", "fedavg", SLOW[: 3 if seed < 3 else 2], seed=seed) for seed in (1, 2, 3)),
    ]


def compared(capsys: pytest.CaptureFixture[str], out: Path, *words: str | Path) -> dict[str, Any]:
    """The output of the command about runs, as plain values."""
    table: dict[str, Any] = json.loads(printed(capsys, "compare", *words, "--out", out, "--format", "json"))
    return table


def read(*folders: Path) -> list[ComparedRun]:
    return compared_runs.read(folders)


def comparison_of(*folders: Path, target: float | None = None) -> Comparison:
    runs = read(*folders)
    return compare(runs, goal.choose(runs, None, None, target))
