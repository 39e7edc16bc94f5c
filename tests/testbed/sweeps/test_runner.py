"""How the runs of a sweep start and end; small functions stand in for them, forked from a real launcher template."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from testbed.processes.templates import early
from testbed.sweeps import runner
from testbed.sweeps.runner import Ended, Runner
from tests.live.runs import PATIENCE, ROOT


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runner, "PROGRAM", tmp_path / "program.py")
    return tmp_path / "program.py"


def template(text: str) -> str:
    """Return the program of a launcher template whose runs do what ``text`` says."""
    body = textwrap.indent(f"import json, os, signal, sys, time\n{text}\nreturn 0", "    ")
    return f"from testbed.sweeps import launcher_template\ndef main(words):\n{body}\nlauncher_template.serve(main)\n"


def run(runner: Runner, program: Path) -> Ended:
    return runner.run(["run", "x.toml"], program.parent / "out", lambda seconds: None)


def ended(program: Path, text: str) -> Ended:
    program.write_text(template(text), encoding="utf-8")
    with Runner() as runner:
        return run(runner, program)


def value(program: Path, expression: str) -> str:
    """Return the value of an expression in a run."""
    return str(ended(program, f"print(json.dumps({{'run_folder': str({expression})}}))").run_folder)


def test_a_run_gets_its_folder_and_prints_it(program: Path) -> None:
    found = ended(
        program,
        "print(json.dumps({'run_folder': words[words.index('--out') + 1], 'final_accuracy': 0.5,"
        " 'long': 'x' * 2_000_000}))",  # more than a pipe holds
    )
    assert (found.code, found.run_folder, found.accuracy) == (0, program.parent / "out", 0.5)
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("text", "code", "problem"),
    [
        ("print('error: too small; take fewer\\n', file=sys.stderr)\nreturn 1", 1, "exit code 1: too small; take"),
        ("os.kill(os.getpid(), 9)", -9, "ended by SIGKILL"),
        ("print('{')\nreturn 2", 2, "exit code 2"),
        ("raise ValueError('my own bug')", 1, "exit code 1: ValueError: my own bug"),
        ("signal.raise_signal(signal.SIGINT)", 130, "exit code 130"),
        ("signal.raise_signal(signal.SIGTERM)", -15, "ended by SIGTERM"),
        ("print('no space', file=sys.stderr)\nos.kill(os.getpid(), 9)", -9, "ended by SIGKILL: no space"),
        ("print('10 %\\r20 %\\rtoo slow', file=sys.stderr)\nreturn 1", 1, "exit code 1: too slow"),
    ],
)
def test_a_failed_run_has_a_reason(program: Path, text: str, code: int, problem: str) -> None:
    found = ended(program, text)
    assert (found.code, found.run_folder) == (code, None)
    assert found.problem.startswith(problem)


def test_the_output_of_a_run_is_utf_8_in_any_locale(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    monkeypatch.setenv("PYTHONUTF8", "0")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    monkeypatch.setenv("LC_ALL", "POSIX")
    found = ended(
        program,
        "print('{\"run_folder\": \"é → \\udce9\"}')\nprint('wrong: é → \\udce9', file=sys.stderr)\nreturn 1",
    )
    assert found.problem == "exit code 1: wrong: é → \\udce9"
    assert found.run_folder == Path("é → \udce9")  # as JSON escapes it


COUNTS = """
signals = []
signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
open(os.environ["READY"], "w").close()
limit = time.monotonic() + 60
while not signals and time.monotonic() < limit:
    time.sleep(0.05)
time.sleep(1.0)
print(json.dumps({"final_accuracy": len(signals)}))
return 130
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
    program, ready = tmp_path / "program.py", tmp_path / "ready"
    program.write_text(template(COUNTS), encoding="utf-8")
    sweep = subprocess.Popen(
        [sys.executable, "-c", SWEEPS, str(program)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"READY": str(ready)},
        start_new_session=True,
    )
    try:
        while not ready.exists():
            assert sweep.poll() is None
        os.killpg(sweep.pid, signal.SIGINT)
        output, _ = sweep.communicate(timeout=PATIENCE)
    finally:
        sweep.kill()
        sweep.wait()
    assert output == f"130 1 {int(signal.SIGINT)}\n"


def test_a_signal_that_comes_before_a_run_is_forked_reaches_it(program: Path) -> None:
    slow_imports = "import time\ntime.sleep(0.5)\n"
    program.write_text(slow_imports + template("time.sleep(60)"), encoding="utf-8")
    with Runner() as runner:
        os.kill(os.getpid(), signal.SIGTERM)
        assert run(runner, program).code == -signal.SIGTERM


def test_signal_handlers_are_restored(program: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    ended(program, "print('{}')")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_is_started_with_its_words_and_quiet_json_output(program: Path) -> None:
    assert value(program, "' '.join(words)") == f"run x.toml --out {program.parent / 'out'} --quiet --format json"


def test_a_run_has_the_folder_the_variables_and_the_import_path_of_the_sweep(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEBED_TEST_COLOUR", "blue")
    monkeypatch.setattr(sys, "path", [*sys.path, "/of/a/user"])
    monkeypatch.chdir(program.parent)
    found = value(program, "[os.getcwd(), os.environ['EDGEBED_TEST_COLOUR'], sys.path[-1]]")
    assert found == str([str(program.parent), "blue", "/of/a/user"])


def test_a_run_has_a_process_group_of_its_own_and_blocks_no_signal(program: Path) -> None:
    found = value(program, "[os.getpgid(0) == os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, ())]")
    assert found == "[True, set()]"


def test_all_runs_are_forked_from_one_template_that_ends_with_the_block(program: Path) -> None:
    program.write_text(template("print(json.dumps({'final_accuracy': os.getppid()}))"), encoding="utf-8")
    with Runner() as runner:
        first, second = run(runner, program), run(runner, program)
    assert first.accuracy is not None
    assert first.accuracy == second.accuracy
    assert not psutil.pid_exists(int(first.accuracy))


def test_a_launcher_template_that_was_killed_ends_the_run_and_is_replaced(program: Path) -> None:
    mark = str(program.parent / "mark")
    once = (
        f"if not os.path.exists({mark!r}):\n    open({mark!r}, 'w')\n    os.kill(os.getppid(), 9)\n    time.sleep(60)"
    )
    program.write_text(template(once), encoding="utf-8")
    with Runner() as runner:
        assert [run(runner, program).problem, run(runner, program).code] == ["ended by SIGKILL", 0]


def test_a_launcher_template_that_died_between_two_runs_is_replaced(program: Path) -> None:
    program.write_text(template("print(json.dumps({'final_accuracy': os.getppid()}))"), encoding="utf-8")
    with Runner() as runner:
        first = run(runner, program)
        os.kill(int(first.accuracy or 0), signal.SIGKILL)
        os.waitid(os.P_PID, int(first.accuracy or 0), os.WEXITED | os.WNOWAIT)  # until it is dead
        second = run(runner, program)
    assert second.code == 0
    assert first.accuracy != second.accuracy


def test_the_launcher_template_has_one_thread_and_neither_torch_nor_figures() -> None:
    """A process with more threads cannot be forked safely."""
    code = (
        "import os, sys; from testbed.cli import main, run_command; from testbed.cli.programs import launchers;"
        "from testbed.sweeps import launcher_template;"
        "sys.exit(len(os.listdir('/proc/self/task')) != 1 or 'torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=os.environ | early.settings(), check=True, timeout=60)
