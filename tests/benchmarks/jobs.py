"""Compute time of a job, and of a step, against its target; as the device reports it, and by the aggregator's clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from testbed.common.stats import quantile
from testbed.history import trace
from tests.benchmarks.ccdf import plot
from tests.benchmarks.fleets import Finished, carried_out
from tests.benchmarks.report import Result

_SECONDS = 30.0
_JOB_SECONDS = 0.9
_HOST_STEP_SECONDS = 0.006
"""Roughly the seconds of a step on a core of 2020; only used to choose the steps of a job of 0.9 s."""
_LONG_STEP = 0.05
PICTURE = Path(__file__).parent.parent.parent / "docs" / "timing.png"


def measure() -> Iterator[Result]:
    curves: dict[str, list[float]] = {}
    for devices in (1, 8, 32):
        for share in (0.5, 0.1, 0.02, 0.01):
            what = f"{devices} × {share:g} of a core"
            steps = max(2, round(_JOB_SECONDS * share / _HOST_STEP_SECONDS))
            table = {
                "devices": [{"name": "d", "profile": {"of_host": share}, "link": "none", "count": devices}],
                "training": {"steps": steps, "batch": 32, "lr": 0.01},
                "stop": {"seconds": _SECONDS},
            }
            run = carried_out(table)
            if run is None:
                yield Result(what=what, measured="refused by admission")
                continue
            yield from _judged(what, run)
            curves[what] = _trip_errors(run)
    plot(PICTURE, curves)
    yield Result(what="CCDF of the round trips' errors", measured=f"drawn in {PICTURE.name}")


def _judged(what: str, run: Finished) -> Iterator[Result]:
    trained = [event for event in run.events if isinstance(event, trace.Trained)]
    jobs = [abs(event.obtained / event.asked - 1) for event in trained]
    trips = _trip_errors(run)
    seconds = trained[0].asked
    for name, errors in (("job", jobs), ("job as the aggregator saw it", trips)):
        mean, p99 = sum(errors) / len(errors), quantile(errors, 0.99)
        yield Result(
            what=f"{what}, {name} of {seconds:.2f} s ({len(errors)})",
            measured=f"mean {mean:.3%}, p99 {p99:.2%}, over 10 %: {sum(e > 0.1 for e in errors) / len(errors):.2%}",
            target="mean ≤ 0.5 %, p99 ≤ 2 %",
            reached=mean <= 0.005 and p99 <= 0.02,
        )
    step = next(line for line in run.summary["fidelity"]["invariants"] if line["name"] == "step time")["figures"]
    long = trained[0].asked / trained[0].steps >= _LONG_STEP
    yield Result(
        what=f"{what}, {'step' if long else 'steps together'} of {trained[0].asked / trained[0].checks * 1e3:.0f} ms",
        measured=f"p50 {step['p50']:.2%}, p99 {step['p99']:.2%}, missed {step['missed']:.2%} of {step['deadlines']}",
        target="p99 ≤ 5 %" if long else "",
        reached=step["p99"] <= 0.05 if long else None,
    )


def _trip_errors(run: Finished) -> list[float]:
    """Errors from sending a model to handling its update, by the aggregator's clock; transport counts as error."""
    return [abs(obtained / asked - 1) for device in run.evidence.computed.values() for asked, obtained in device.trips]
