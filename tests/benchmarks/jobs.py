"""Compute time of a job, and of a step, against its target; as the device reports it, and by the aggregator's clock.

12 runs of 30 s: 7 minutes. ``--quick``: four runs of 12 s, without the figure docs/timing.png.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from testbed.common.stats import quantile
from testbed.fidelity.evidence import EvidenceGatherer
from testbed.fidelity.measurements import Delivery
from testbed.history import trace
from testbed.history.event_pass import pass_events
from tests.benchmarks.ccdf import plot
from tests.benchmarks.fleets import Finished, carried_out
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most

_SECONDS, _QUICK_SECONDS = 30.0, 12.0
_CASES = tuple((devices, share) for devices in (1, 8, 32) for share in (0.5, 0.1, 0.02, 0.01))
_QUICK_CASES = ((1, 0.5), (1, 0.1), (8, 0.02), (32, 0.01))
_MEAN, _P99, _STEP_P99 = 0.5, 2.0, 5.0
"""Aims in percent."""
_JOB_SECONDS = 0.9
_HOST_STEP_SECONDS = 0.006
"""Roughly the seconds of a step on a core of 2020; only used to choose the steps of a job of 0.9 s."""
_LONG_STEP = 0.05
PICTURE = Path(__file__).parent.parent.parent / "docs" / "timing.png"


def measure(options: Options) -> Iterator[Figure]:
    curves: dict[str, list[float]] = {}
    for devices, share in _QUICK_CASES if options.quick else _CASES:
        row = f"{devices} × {share:g} of a core"
        steps = max(2, round(_JOB_SECONDS * share / _HOST_STEP_SECONDS))
        table = {
            "devices": [{"name": "d", "profile": {"of_host": share}, "link": "none", "count": devices}],
            "training": {"steps": steps, "batch": 32, "lr": 0.01},
            "stop": {"seconds": options.seconds(_SECONDS, _QUICK_SECONDS)},
        }
        run = carried_out(table)
        if run is None:
            yield Figure(row=row, value=None, note="refused by admission")
            continue
        yield from _judged(row, run)
        curves[row] = _trip_errors(run)
    if not options.quick:
        plot(PICTURE, curves)


def _judged(row: str, run: Finished) -> Iterator[Figure]:
    trained = [event for event in run.events if isinstance(event, trace.Trained)]
    jobs, trips = [abs(event.obtained / event.asked - 1) for event in trained], _trip_errors(run)
    note = f"{len(jobs)} jobs of {trained[0].asked:.2f} s"
    for name, errors in (("job off", jobs), ("round trip off", trips)):
        mean, p99 = 100 * sum(errors) / len(errors), 100 * quantile(errors, 0.99)
        yield Figure(row=row, column=f"{name}: mean", value=mean, unit="%", aim=at_most(_MEAN), note=note)
        yield Figure(row=row, column=f"{name}: p99", value=p99, unit="%", aim=at_most(_P99))
        note = ""
    large = 100 * sum(error > 0.1 for error in trips) / len(trips)
    yield Figure(row=row, column="round trips off by > 10 %", value=large, unit="%")
    step = next(line for line in run.summary["fidelity"]["invariants"] if line["name"] == "step time")["figures"]
    long = trained[0].asked / trained[0].steps >= _LONG_STEP
    note = f"{'a step' if long else 'steps together'} of {trained[0].asked / trained[0].checks * 1e3:.0f} ms"
    aim = at_most(_STEP_P99) if long else None
    yield Figure(row=row, column="step off: p99", value=100 * step["p99"], unit="%", aim=aim, note=note)
    yield Figure(row=row, column="steps missed", value=100 * step["missed"], unit="%")


def _trip_errors(run: Finished) -> list[float]:
    """Errors from sending a model to handling its update, by the aggregator's clock; transport counts as error."""
    gatherer = _TripGatherer(lambda delivery: None)
    pass_events(run.events, gatherer)
    return gatherer.errors


class _TripGatherer(EvidenceGatherer):
    """Keeps the error of each round trip; a certificate needs only their sums."""

    def __init__(self, note: Callable[[Delivery], None]) -> None:
        super().__init__(note)
        self.errors: list[float] = []

    def _round_trip(self, device: str, asked: float, obtained: float) -> None:
        super()._round_trip(device, asked, obtained)
        self.errors.append(abs(obtained / asked - 1))
