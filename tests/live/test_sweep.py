"""A sweep that is killed and interrupted continues without repeating finished runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from testbed.history import trace
from tests.live.runs import PATIENCE, ROOT, write_profile

pytestmark = pytest.mark.live

CELLS = ["fedavg-seed1", "fedavg-seed2", "fedasync-seed1", "fedasync-seed2"]


@contextlib.contextmanager
def started(profile: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    words = ["sweep", str(profile), "--strategy", "fedavg,fedasync", "--seeds", "2", "--out", str(out), "--no-report"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_testbed.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def states(out: Path) -> dict[str, str]:
    cells: list[dict[str, Any]] = json.loads((out / "sweep.json").read_text(encoding="utf-8"))["cells"]
    return {cell["name"]: cell["state"] for cell in cells}


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def at_work(out: Path, name: str) -> bool:
    """Whether the run of a cell has begun to train."""
    traces = list((out / name).glob("*/trace.jsonl"))
    return bool(traces) and '{"kind":"arrived",' in traces[0].read_text(encoding="utf-8")


def identity(out: Path, name: str) -> tuple[str, int, int]:
    """Folder, file and time of a run: another run would differ."""
    [path] = (out / name).glob("*/trace.jsonl")
    return path.parent.name, path.stat().st_ino, path.stat().st_mtime_ns


def test_a_sweep_that_was_killed_and_interrupted_continues_where_it_was(tmp_path: Path) -> None:
    # long enough for a signal that a crowded host delivers late
    profile, out = write_profile(tmp_path, stop={"seconds": 5.0}), tmp_path / "out"
    with started(profile, out) as process:  # kill -9 in the middle of the second run
        wait_for(lambda: at_work(out, CELLS[1]))
        family = psutil.Process(process.pid).children(recursive=True)  # the run, and the templates that all runs share
        process.kill()
        process.communicate(timeout=PATIENCE)
        assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []
    [half] = (out / CELLS[1]).iterdir()
    assert not (half / "summary.json").exists()  # the run was ended with the sweep
    assert list(states(out).values()) == ["done", "running", "waiting", "waiting"]
    first = identity(out, CELLS[0])

    with started(profile, out) as process:  # Ctrl-C in the middle of the third
        wait_for(lambda: at_work(out, CELLS[2]))
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (130, "")
    assert "1 of 4 runs are finished already" in output
    assert f"{CELLS[1]}: the files of an unfinished run are now in {out}/unfinished/{CELLS[1]}-1" in output
    assert output.endswith(f"interrupted; repeat the command to continue ({out}/sweep.json)\n")
    assert list(states(out).values()) == ["done", "done", "interrupted", "waiting"]
    second = identity(out, CELLS[1])
    [interrupted] = (out / CELLS[2]).glob("*/trace.jsonl")  # it received the signal once, and ended cleanly
    *_, last = trace.read(interrupted)
    assert isinstance(last, trace.Stopped)
    assert json.loads((interrupted.parent / "summary.json").read_text())["stopped"] == "interrupted"

    with started(profile, out) as process:
        output, errors = process.communicate(timeout=2 * PATIENCE)
        assert (process.returncode, errors) == (0, "")
    assert list(states(out).values()) == ["done"] * 4
    assert (identity(out, CELLS[0]), identity(out, CELLS[1])) == (first, second)
    assert sorted(path.name for path in (out / "unfinished").iterdir()) == [f"{CELLS[2]}-1", f"{CELLS[1]}-1"]
    assert "4 runs in 2 groups" in output
    assert (out / "compare.html").is_file()
    assert len((out / "runs.csv").read_text(encoding="utf-8").splitlines()) == 1 + 4
