"""How long a user waits: for the first job of a run, for short commands, and between two runs of a sweep.

Each command is a process of its own with all imports, as in a shell. With an empty cache, no file of an earlier run
helps: nothing is known about the host.
"""

from __future__ import annotations

import datetime
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.history import trace
from tests.benchmarks.fleets import ROOT, result, start
from tests.benchmarks.options import Options
from tests.benchmarks.records.figure import Figure, at_most, median

TURNS = 3
_QUICKSTART_SECONDS = 2.0
_FIRST_JOB, _PLAN, _SHORT, _REPORT, _BETWEEN = 1.5, 1.5, 0.15, 0.7, 0.5
_SHORT_COMMANDS = ("--help", "list strategies", "--version")


def measure(options: Options) -> Iterator[Figure]:
    turns = options.repeats(TURNS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold = [_first_job(folder / f"cold-{turn}", folder / f"cache-{turn}") for turn in range(turns)]
        warm = [_first_job(folder / f"warm-{turn}", folder / "cache-0") for turn in range(turns)]
        yield median("run quickstart, empty cache: first job", "time", cold, unit="s", aim=at_most(_FIRST_JOB))
        yield median("run quickstart, as a later run: first job", "time", warm, unit="s", aim=at_most(_FIRST_JOB))
        [stored] = (folder / "warm-0").iterdir()
        for words in _SHORT_COMMANDS:
            yield _command(words, words.split(), turns, _SHORT)
        yield _command("plan quickstart", ["plan", "quickstart"], turns, _PLAN)
        yield _command("report of 8 devices", ["report", str(stored)], turns, _REPORT)
        yield from _sweep(folder / "sweep", max(2, turns))


def _first_job(out: Path, cache: Path) -> float:
    """Seconds from the start of the command to time zero, at which the first jobs are sent."""
    began = time.time()
    seconds = ("--seconds", str(_QUICKSTART_SECONDS))
    run = start("quickstart", out, *seconds, environment={"XDG_CACHE_HOME": str(cache)})
    folder = Path(result(run)["run_folder"])
    return time_zero(folder) - began


def _command(row: str, words: list[str], turns: int, aim: float) -> Figure:
    values = []
    for _ in range(turns):
        began = time.perf_counter()
        subprocess.run([sys.executable, ROOT / "run_testbed.py", *words], check=True, stdout=subprocess.DEVNULL)
        values.append(time.perf_counter() - began)
    return median(row, "time", values, unit="s", aim=at_most(aim))


def _sweep(out: Path, runs: int) -> Iterator[Figure]:
    """Gaps between the runs of a sweep over seeds: from the last result file, and from the end of the emulation.

    A gap includes a new survey if the host does not confirm the remembered one: the note counts these.
    """
    command = [sys.executable, str(ROOT / "run_testbed.py"), "sweep", "quickstart", "--out", str(out)]
    command += ["--seeds", str(runs), "--seconds", str(_QUICKSTART_SECONDS), "--no-report"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folders = sorted((path.parent for path in out.glob("*/*/trace.jsonl")), key=time_zero)
    pairs = list(itertools.pairwise(folders))
    results = [time_zero(later) - (earlier / "summary.json").stat().st_mtime for earlier, later in pairs]
    stops = [time_zero(later) - _stopped(earlier) for earlier, later in pairs]
    surveys = sum(not _header(later).survey_age for _, later in pairs)
    row, note = "sweep: first job of the next run", f"{surveys} of {len(pairs)} with a new survey"
    yield median(f"{row} after the results of the last", "time", results, unit="s", aim=at_most(_BETWEEN), note=note)
    yield median(f"{row} after the emulated end of the last", "time", stops, unit="s", note=note)


def time_zero(folder: Path) -> float:
    """The moment (Unix time) at which a run began: all devices are ready, and the first jobs are sent."""
    return datetime.datetime.fromisoformat(_header(folder).started).timestamp()


def _stopped(folder: Path) -> float:
    """The moment at which the emulation ended."""
    end = next(event.t for event in trace.read(folder / "trace.jsonl") if isinstance(event, trace.Stopped))
    return time_zero(folder) + end * _header(folder).dilation


def _header(folder: Path) -> trace.Header:
    return next(event for event in trace.read(folder / "trace.jsonl") if isinstance(event, trace.Header))
