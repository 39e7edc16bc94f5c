"""What became of several runs, and whether all of them met the same delays: from their traces to plain values."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.analysis import metrics, trace_reading
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
    """A run, with the jobs of each device in a file of its own."""

    path: Path
    header: trace.Header
    total: Totals
    files: dict[str, Path]
    away: dict[str, list[Absence]]
    """Device → when it was away, by its availability trace or by the script."""
    torn: list[int]


def compare(paths: Sequence[Path], use: str, target: float | None) -> dict[str, Any]:
    """Everything there is to say about runs, by their traces.

    ``use``: computing of those that are no replays, as ``obtained`` or ``asked``. Of a replay, it is always what was
    asked for: that is what was to be met again, and how near it came is told by its own certificate. ``target`` is an
    accuracy.
    """
    # called like the folders of runs: if we are killed, the next run sweeps it up
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
    """Two passes over the trace, so that nothing but what they add up to is held in memory."""
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
    """Whether a device came back from the same absences in all runs, as long as all of them went on."""
    ended = min(run.total.seconds for run in runs) - TOLERANCE
    backs = [[back for _, back in run.away[device] if back < ended] for run in runs]
    return all(
        len(own) == len(backs[0]) and all(abs(a - b) <= TOLERANCE for a, b in zip(own, backs[0], strict=True))
        for own in backs
    )


def _first(rows: Sequence[Pairs]) -> JobDifference | None:
    """The one in the earliest job."""
    return min((row.first for row in rows if row.first is not None), key=lambda first: first.job, default=None)


def _reached_by_all(runs: Sequence[TracedRun]) -> float | None:
    best = [metrics.summary(run.total)["best_accuracy"] for run in runs]
    return None if None in best else min(best)


def _run(run: TracedRun, target: float | None) -> dict[str, Any]:
    summary, scores = metrics.summary(run.total), metrics.metric_rows(run.total)
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
        "seconds_to_target": None if target is None else metrics.seconds_to(run.total, target),
    }


# ---- what is said about them


def _verdict(rows: Sequence[Pairs], jobs: int, first: JobDifference | None, elsewhere: Sequence[str]) -> str:
    if not jobs:
        return "nothing to compare: no device did a job in all runs"
    if first is None and elsewhere:
        names = ", ".join(elsewhere[:_MOST_NAMED])
        return f"not equal: {len(elsewhere)} of {len(rows)} devices were away at other times: {names}"
    if first is None:
        return (
            f"equal delays: every one of the {jobs} jobs that all runs did met the same delays, drops and suspensions"
            f" (within {TOLERANCE:g} s)"
        )
    differ = sum(row.first is not None for row in rows)
    return f"not equal: {differ} of {len(rows)} devices differ (by more than {TOLERANCE:g} s); {_told(first)}"


def _told(first: JobDifference) -> str:
    """The two runs that are farthest apart."""
    known = {number: value for number, value in enumerate(first.met, 1) if value is not None}
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
            yield f"{run.path}: has no end: the run goes on, or was killed"
    everybody = dict.fromkeys(device for run in runs for device in run.files)
    for number, run in enumerate(runs, 1):
        missing = [device for device in everybody if device not in run.files]
        if missing:
            more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            yield f"the runs have different devices: run {number} has no {', '.join(missing[:_MOST_NAMED])}{more}"
    ordinary = [str(number) for number, run in enumerate(runs, 1) if not run.header.replay]
    if use == "obtained" and ordinary and any(row.apart.get("computing", 0.0) > TOLERANCE for row in rows):
        yield (
            f"computing of run {', '.join(ordinary)}, no replay, is what it obtained; --use asked takes what it was"
            " asked for"
        )
