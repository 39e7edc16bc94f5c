"""The results of several runs, and whether all of them met the same delays, from their traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from testbed.analysis import run_tables
from testbed.emulation import recorded
from testbed.host.private_folder import private_folder
from testbed.trace_tools import job_pairs, traced_run
from testbed.trace_tools.delay_tolerance import TOLERANCE
from testbed.trace_tools.job_pairs import DeviceDifferences, JobDifference, Pairs
from testbed.trace_tools.traced_run import TracedRun

_MOST_NAMED = 8


class TracedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one run; None where no update arrived, or no version was scored."""

    trace: str
    name: str
    strategy: str
    seed: int
    replay: str
    """The mode, if the run is a replay."""
    versions: int
    seconds: float
    arrivals: int
    mean_staleness: float | None
    max_staleness: int | None
    accuracy: float | None
    loss: float | None
    seconds_to_target: float | None


class DelayComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Several runs, and whether all of them met the same delays."""

    runs: list[TracedResult]
    target_accuracy: float | None
    devices: list[DeviceDifferences]
    """The devices that all runs have."""
    same_devices: bool
    jobs: int
    """Jobs that all runs did."""
    tolerance_s: float
    equal: bool
    first_difference: JobDifference | None
    verdict: str
    notes: list[str]


def compare(paths: Sequence[Path], use: str, target: float | None) -> DelayComparison:
    """Compare runs. Raises UserError if a trace cannot be read.

    ``use`` chooses the seconds of computing, ``obtained`` or ``asked``, for runs that are no replays. For a replay they
    are always the asked ones, which repeat the recording; its certificate says how exactly. ``target`` is an accuracy.
    """
    with private_folder() as folder:  # if this process is killed, the next run removes it
        runs = [traced_run.read(path, folder.path / str(number), use) for number, path in enumerate(paths)]
        devices = [device for device in runs[0].files if all(device in run.files for run in runs)]
        rows = [
            job_pairs.compare(device, [recorded.read_jobs(run.files[device]) for run in runs]) for device in devices
        ]
    jobs, first = sum(row.jobs for row in rows), _first(rows)
    elsewhere = [device for device in devices if not _away_together(device, runs)]
    target = _reached_by_all(runs) if target is None else target
    return DelayComparison(
        runs=[_result(run, target) for run in runs],
        target_accuracy=target,
        devices=[row.differences(same_absences=row.device not in elsewhere) for row in rows],
        same_devices=all(run.files.keys() == runs[0].files.keys() for run in runs),
        jobs=jobs,
        tolerance_s=TOLERANCE,
        equal=jobs > 0 and first is None and not elsewhere,
        first_difference=first,
        verdict=_verdict(rows, jobs, first, elsewhere),
        notes=list(_notes(runs, rows, use)),
    )


def _away_together(device: str, runs: Sequence[TracedRun]) -> bool:
    """Whether a device came back from the same absences in all runs, up to the end of the shortest."""
    ended = min(run.stored.totals.seconds for run in runs) - TOLERANCE
    backs = [[back for _, back in run.away[device] if back < ended] for run in runs]
    return all(
        len(own) == len(backs[0]) and all(abs(a - b) <= TOLERANCE for a, b in zip(own, backs[0], strict=True))
        for own in backs
    )


def _first(rows: Sequence[Pairs]) -> JobDifference | None:
    """The difference in the earliest job."""
    return min((row.first for row in rows if row.first is not None), key=lambda first: first.job, default=None)


def _reached_by_all(runs: Sequence[TracedRun]) -> float | None:
    """The best accuracy that all runs reached; None if one was not scored."""
    best = [run.stored.computed_summary.best_accuracy for run in runs]
    known = [accuracy for accuracy in best if accuracy is not None]
    return min(known) if len(known) == len(best) else None


def _result(run: TracedRun, target: float | None) -> TracedResult:
    summary, total, header = run.stored.computed_summary, run.stored.totals, run.header
    rows = run_tables.metric_rows(total)
    last = rows[-1].scores if rows else {}
    reached = None if target is None else run_tables.first_to_reach(rows, target)
    return TracedResult(
        trace=str(run.path),
        name=header.name,
        strategy=header.strategy,
        seed=header.seed,
        replay=header.replay,
        versions=summary.versions,
        seconds=summary.seconds,
        arrivals=total.arrived,
        mean_staleness=summary.mean_staleness,
        max_staleness=summary.max_staleness,
        accuracy=last.get("accuracy"),
        loss=last.get("loss"),
        seconds_to_target=None if reached is None else reached.time_s,
    )


# ---- verdict and notes


def _verdict(rows: Sequence[Pairs], jobs: int, first: JobDifference | None, elsewhere: Sequence[str]) -> str:
    if not jobs:
        return "nothing to compare: no device did a job in all runs"
    if first is None and elsewhere:
        names = ", ".join(elsewhere[:_MOST_NAMED])
        return f"not equal: {len(elsewhere)} of {len(rows)} devices were absent at other times: {names}"
    if first is None:
        return (
            f"equal delays: each of the {jobs} jobs that all runs did met the same delays, drops and suspensions"
            f" (within {TOLERANCE:g} s)"
        )
    differ = sum(row.first is not None for row in rows)
    return f"not equal: {differ} of {len(rows)} devices differ (by more than {TOLERANCE:g} s); {_described(first)}"


def _described(first: JobDifference) -> str:
    """A difference in words, by the two runs that differ most."""
    known = {number: value for number, value in enumerate(first.observed, 1) if value is not None}
    few, many = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    place = f"first: {first.device}, job {first.job}"
    what = first.what.removesuffix(" lost")
    attempt = f", attempt {first.attempt} of its {what}" if what in ("download", "upload") else f", {what}"
    if what != first.what:
        return f"{place}{attempt}: lost in run {many}, not in run {few}"
    scale, unit = (1e3, "ms per step") if what == "computing" else (1.0, "s")
    values = f"{known[few] * scale:.6g} {unit} in run {few}, {known[many] * scale:.6g} in run {many}"
    return f"{place}{attempt}: {values} ({first.apart * scale:.3g} apart)"


def _notes(runs: Sequence[TracedRun], rows: Sequence[Pairs], use: str) -> Iterator[str]:
    for run in runs:
        yield from filter(None, [run.stored.torn_note()])
        if run.stored.totals.stopped is None:
            yield f"{run.path}: has no end: the run continues or was killed"
    all_devices = dict.fromkeys(device for run in runs for device in run.files)
    for number, run in enumerate(runs, 1):
        missing = [device for device in all_devices if device not in run.files]
        if missing:
            more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            yield f"the runs have different devices: run {number} has no {', '.join(missing[:_MOST_NAMED])}{more}"
    ordinary = [str(number) for number, run in enumerate(runs, 1) if not run.header.replay]
    if use == "obtained" and ordinary and any(row.apart.get("computing", 0.0) > TOLERANCE for row in rows):
        yield (
            f"for computing of run {', '.join(ordinary)}, no replay, the obtained seconds count; --use asked compares"
            " the asked ones"
        )
