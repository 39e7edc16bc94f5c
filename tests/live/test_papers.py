"""A paper's programme with real runs: recorded, replayed and not repeated; Ctrl-C ends it cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from testbed.papers.framework.paper import Paper
from testbed.papers.framework.paper_run import PaperRun
from testbed.papers.programme import Programme
from testbed.sweeps.runner import Runner
from tests.live.runs import PATIENCE, ROOT
from tests.testbed.papers.small import chapter

pytestmark = pytest.mark.live

SHORT = {"stop.seconds": 2, "devices[0].count": 1, "devices[1].count": 1, "dilation": "auto"}
RECORDED = PaperRun(name="recorded", profile="quickstart.toml", seed=1, strategy="fedasync", settings=SHORT)
REPLAYED = PaperRun(
    name="replayed", profile="quickstart.toml", seed=1, strategy="fedbuff", settings=SHORT, replays="recorded"
)
PAPER = Paper(name="two", title="Two", citation="", paper_runs=lambda chosen: [RECORDED, REPLAYED], chapter=chapter)


def carried_out(folder: Path) -> Programme:
    with Runner() as runner:
        programme = Programme(PAPER, folder, Console(quiet=True), runner)
        programme.carry_out()
    assert not programme.failed
    return programme


def test_one_run_is_recorded_and_the_other_replays_its_delays(tmp_path: Path) -> None:
    programme = carried_out(tmp_path)
    recorded, replayed = programme.results["recorded"], programme.results["replayed"]
    certificate = json.loads((replayed.folder / "replay.json").read_text(encoding="utf-8"))
    assert Path(certificate["trace"]).resolve().is_relative_to(recorded.folder)
    assert 0 < recorded.curve()[0][-1] <= 2.1
    assert recorded.final() > 0
    assert not (recorded.folder / "report.html").exists()
    again = carried_out(tmp_path)
    assert again.results["replayed"].folder == replayed.folder
    assert again.host_seconds == programme.host_seconds > recorded.took


def test_ctrl_c_ends_it_and_no_process_remains(tmp_path: Path) -> None:
    words = ["-m", "testbed.papers", "afl", "--out", str(tmp_path / "runs"), "--document", str(tmp_path / "papers.md")]
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    limit = time.monotonic() + PATIENCE
    while not list((tmp_path / "runs").glob("afl/*/*/trace.jsonl")):
        assert time.monotonic() < limit
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, "")
    assert output.endswith("interrupted; the same command continues from here\n")
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []
    assert not (tmp_path / "papers.md").exists()
    assert not list((tmp_path / "runs").glob("afl/*/job.json"))
