"""Who reads what a run prints, and whether anybody does, makes no difference to the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from io import FileIO
from pathlib import Path

import pytest

from testbed.processes.templates import early
from tests.live import shared_templates
from tests.live.runs import PATIENCE, PROGRAM, started, write_profile

pytestmark = pytest.mark.live

LOUD = """
from dataclasses import dataclass
from testbed.learning.tasks.digits import Digits

@dataclass(kw_only=True)
class Loud(Digits):
    def data(self, setting):
        print("loading …" * 10_000, flush=True)
        return super().data(setting)
"""
PROFILE = {"name": "größe", "task": "loud_task_of_a_user:Loud", "stop": {"seconds": 600.0, "versions": 3}}


def carry_out(folder: Path, words: str, redirected: str) -> tuple[int, str]:
    """Carry out a command in a shell. Returns its exit code, not that of its reader, and what the shell printed."""
    with shared_templates.connected() as template:
        assert template is not None
        found = subprocess.run(
            ["bash", "-c", f"{sys.executable} {PROGRAM} {words} {redirected}\nexit ${{PIPESTATUS[0]}}"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            pass_fds=[template.fileno()],
            env=os.environ | {early.SOCKET: str(template.fileno())},
            check=False,
        )
    return found.returncode, found.stderr


@pytest.mark.parametrize(
    "redirected", ["| head -1", "2>&1 | true", ">/dev/full 2>&1", "<&- >&- 2>&-", "--quiet --format json | true"]
)
def test_a_run_goes_on_without_a_reader_and_its_exit_code_is_about_the_run(tmp_path: Path, redirected: str) -> None:
    (tmp_path / "loud_task_of_a_user.py").write_text(LOUD, encoding="utf-8")
    write_profile(tmp_path, **PROFILE)
    assert carry_out(tmp_path, "run small.toml --no-report", redirected) == (0, "")
    [summary] = tmp_path.glob("runs/*/summary.json")
    assert json.loads(summary.read_text(encoding="utf-8"))["versions"] >= 3


def test_a_run_that_fails_without_a_reader_says_so_by_its_exit_code(tmp_path: Path) -> None:
    write_profile(tmp_path, task="a_module_that_is_missing:Task")
    assert carry_out(tmp_path, "run small.toml", ">/dev/full 2>&1") == (2, "")


def test_a_run_prints_in_an_encoding_without_its_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loud_task_of_a_user.py").write_text(LOUD, encoding="utf-8")
    profile = write_profile(tmp_path, **PROFILE)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with started(profile, own_templates=True) as run:
        outcome = run.finish()
    assert outcome.code == 0, outcome.stderr
    assert "loading \\u2026" in outcome.stdout
    assert outcome.summary["versions"] >= 3


@pytest.mark.parametrize("redirected", [">&- 2>&-", "2>&1 | true"])
def test_a_sweep_goes_on_without_a_reader(tmp_path: Path, redirected: str) -> None:
    write_profile(tmp_path, stop={"seconds": 600.0, "versions": 1})
    words = f"{sys.executable} {PROGRAM} sweep small.toml --seeds 1 --no-report --out sweep"
    shell = ["bash", "-c", f"{words} {redirected}\nexit ${{PIPESTATUS[0]}}"]
    found = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert list(tmp_path.glob("sweep/*/*/summary.json"))
    assert (tmp_path / "sweep/compare.csv").exists()


def test_the_end_of_the_terminal_does_not_end_a_run_under_nohup(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, stop={"seconds": 600.0})
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the run inherits it, as from nohup
    try:
        with started(profile) as run:
            run.wait_until_traced("aggregated")
            run.process.send_signal(signal.SIGHUP)
            run.wait_until_traced("aggregated", run.traced().count("aggregated") + 5)
            outcome = run.interrupt()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome.code == 130


def test_a_run_shows_its_progress_on_a_terminal(tmp_path: Path) -> None:
    """While rich shows something live, it replaces the standard streams by proxies that print on the console."""
    profile = write_profile(tmp_path, stop={"seconds": 600.0, "versions": 3})
    ours, theirs = os.openpty()
    command = [sys.executable, PROGRAM, "run", profile, "--no-report"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            shown = b"".join(iter(lambda: _read(terminal), b""))
        assert process.wait(PATIENCE) == 0
    assert b"\x1b[?25l" in shown  # the cursor was hidden: there was a live view
    assert b"fidelity:" in shown


def _read(terminal: FileIO) -> bytes:
    try:
        return terminal.read(1 << 16)
    except OSError:  # the last process that had the other end has ended
        return b""
