"""How the runs of a sweep start and end; small programs stand in for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.sweeps import runner
from testbed.sweeps.runner import Ended, Runner
from tests.live.runs import PATIENCE, ROOT


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runner, "PROGRAM", tmp_path / "program.py")
    return tmp_path / "program.py"


def ended(program: Path, text: str) -> Ended:
    program.write_text(text, encoding="utf-8")
    with Runner() as runner:
        return runner.run(["run", "x.toml"], program.parent / "out", lambda seconds: None)


def test_a_run_gets_its_folder_and_prints_it(program: Path) -> None:
    found = ended(
        program,
        "import json, sys\n"
        "print(json.dumps({'run_folder': sys.argv[sys.argv.index('--out') + 1], 'final_accuracy': 0.5,"
        " 'words': sys.argv[1:], 'long': 'x' * 2_000_000}))",  # more than a pipe holds
    )
    assert (found.code, found.run_folder, found.accuracy) == (0, program.parent / "out", 0.5)
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("text", "code", "problem"),
    [
        ("import sys; sys.exit('warning: slow\\nerror: too small; take fewer\\n')", 1, "exit code 1: too small; take"),
        ("import os; os.kill(os.getpid(), 9)", -9, "ended by SIGKILL"),
        ("import sys; print('{'); sys.exit(2)", 2, "exit code 2"),
    ],
)
def test_a_failed_run_has_a_reason(program: Path, text: str, code: int, problem: str) -> None:
    found = ended(program, text)
    assert (found.code, found.run_folder) == (code, None)
    assert found.problem.startswith(problem)


COUNTS = """
import json, signal, sys, time
count = 0
def note(number, frame):
    global count
    count += 1
signal.signal(signal.SIGINT, note)
open(sys.argv[0] + ".ready", "w").close()
limit = time.monotonic() + 60
while not count and time.monotonic() < limit:
    time.sleep(0.05)
time.sleep(1.0)
print(json.dumps({"final_accuracy": count}))
sys.exit(130)
"""
SWEEPS = """
import sys
from pathlib import Path
from testbed.sweeps import runner as sweep_runner
sweep_runner.PROGRAM = Path(sys.argv[1])
with sweep_runner.Runner() as runner:
    found = runner.run([], Path("out"), lambda seconds: None)
print(found.code, found.accuracy, runner.interrupted_by)
"""


def test_ctrl_c_reaches_a_run_once_although_a_terminal_signals_the_whole_group(tmp_path: Path) -> None:
    """A second signal would end the run at once, without results."""
    program = tmp_path / "program.py"
    program.write_text(COUNTS, encoding="utf-8")
    sweep = subprocess.Popen(
        [sys.executable, "-c", SWEEPS, str(program)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        while not Path(f"{program}.ready").exists():
            assert sweep.poll() is None
        os.killpg(sweep.pid, signal.SIGINT)
        output, _ = sweep.communicate(timeout=PATIENCE)
    finally:
        sweep.kill()
        sweep.wait()
    assert output == f"130 1 {int(signal.SIGINT)}\n"


def test_signal_handlers_are_restored(program: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    ended(program, "print('{}')")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_is_started_with_its_words_and_quiet_json_output(program: Path) -> None:
    found = ended(program, "import json, sys\nprint(json.dumps({'run_folder': ' '.join(sys.argv[1:])}))")
    assert str(found.run_folder) == f"run x.toml --out {program.parent / 'out'} --quiet --format json"
