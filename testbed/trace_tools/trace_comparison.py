"""The results of several runs, and whether all of them met the same delays, as plain values from their traces."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.analysis import metrics, run_tables, trace_reading
from testbed.analysis.totals import Totals
from testbed.emulation import recorded
from testbed.history import trace
from testbed.history.trace import Event
from testbed.replay import recording
from testbed.trace_tools import job_pairs
from testbed.trace_tools.job_pairs import TOLERANCE, JobDifference, Pairs
from testbed.trace_tools.trace_text import torn_note
from testbed.traces.availability import Absence

_MOST_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A run, with the jobs of each device in a separate file."""

    path: Path
    header: trace.Header
    total: Totals
    files: dict[str, Path]
    away: dict[str, list[Absence]]
    """Device → its absences, by its availability trace or by the script."""
    torn: list[int]


def compare(paths: Sequence[Path], use: str, target: float | None) -> dict[str, Any]:
    """The whole comparison of runs, as the command prints it in JSON.

    ``use`` chooses the seconds of computing, ``obtained`` or ``asked``, for runs that are no replays. For a replay they
    are always the asked ones, which repeat the recording; its certificate says how exactly. ``target`` is an accuracy.
    """
    # named like the private folders of runs: if this process is killed, the next run removes it
    with tempfile.TemporaryDirectory(prefix=f"edgebed-{os.getpid()}-") as folder:
        runs = [_read(path, Path(folder) / str(number), use) for number, path in enumerate(paths)]
        devices = [device for device in runs[0].files if all(device in run.files for run in runs)]
        rows = [
            job_pairs.compare(device, [recorded.read_jobs(run.files[device]) for run in runs]) for device in devices
        ]
    jobs, first = sum(row.jobs for row in rows), _first(rows)
    elsewhere = [device for device in devices if not _away_together(device, runs)]
    target = _reached_by_all(runs) if target is None else target
    return {
        "runs": [_run(run, target) for run in runs],
        "target_accuracy": target,
        "devices": [row.as_row() | {"same_absences": row.device not in elsewhere} for row in rows],
        "same_devices": all(run.files.keys() == runs[0].files.keys() for run in runs),
        "jobs": jobs,
        "tolerance_s": TOLERANCE,
        "equal": jobs > 0 and first is None and not elsewhere,
        "first_difference": asdict(first) if first is not None else None,
        "verdict": _verdict(rows, jobs, first, elsewhere),
        "notes": list(_notes(runs, rows, use)),
    }


def _read(path: Path, folder: Path, use: str) -> TracedRun:
    """Read a trace in two passes, so that only sums are in memory."""
    torn: list[int] = []
    away: dict[str, list[Absence]] = defaultdict(list)
    header, total = trace_reading.read_totals(path, torn.append, lambda events: _noting_absences(events, away))
    folder.mkdir()
    names = {device: str(number) for number, device in enumerate(total.devices)}
    recording.split(trace_reading.events(path), folder, names, use="asked" if header.replay else use)
    files = {device: folder / name for device, name in names.items()}
    return TracedRun(path=path, header=header, total=total, files=files, away=away, torn=torn)


def _noting_absences(events: Iterator[Event], away: dict[str, list[Absence]]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, trace.Suspended) and event.away:
            away[event.device].append((event.since, event.back))
        yield event


def _away_together(device: str, runs: Sequence[TracedRun]) -> bool:
    """Whether a device came back from the same absences in all runs, up to the end of the shortest."""
    ended = min(run.total.seconds for run in runs) - TOLERANCE
    backs = [[back for _, back in run.away[device] if back < ended] for run in runs]
    return all(
        len(own) == len(backs[0]) and all(abs(a - b) <= TOLERANCE for a, b in zip(own, backs[0], strict=True))
        for own in backs
    )


def _first(rows: Sequence[Pairs]) -> JobDifference | None:
    """The difference in the earliest job."""
    return min((row.first for row in rows if row.first is not None), key=lambda first: first.job, default=None)


def _reached_by_all(runs: Sequence[TracedRun]) -> float | None:
    best = [metrics.summary(run.total)["best_accuracy"] for run in runs]
    return None if None in best else min(best)


def _run(run: TracedRun, target: float | None) -> dict[str, Any]:
    summary, scores = metrics.summary(run.total), run_tables.metric_rows(run.total)
    last = scores[-1] if scores else {}
    return {
        "trace": str(run.path),
        **{key: summary[key] for key in ("name", "strategy", "seed")},
        "replay": run.header.replay,
        **{key: summary[key] for key in ("versions", "seconds")},
        "arrivals": run.total.arrived,
        **{key: summary[key] for key in ("mean_staleness", "max_staleness")},
        "accuracy": last.get("accuracy"),
        "loss": last.get("loss"),
        "seconds_to_target": None if target is None else run_tables.seconds_to(run.total, target),
    }


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
        yield from (torn_note(run.path, line) for line in run.torn)
        if run.total.stopped is None:
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
