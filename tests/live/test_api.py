"""The Python API with real runs: scripts, own classes, Ctrl-C, sweeps, and the notebooks of the documentation."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from testbed import Run, plan, run, sweep
from testbed.errors import HostTooSmall
from tests.live.runs import PATIENCE, ROOT, SMALL, with_this_code

pytestmark = pytest.mark.live
NOTEBOOKS = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))

OWN = '''
from dataclasses import dataclass

from aggregator import EveryUpdate, Server, Update


@dataclass(kw_only=True)
class Half(EveryUpdate):
    """Applies half of each update."""

    def weight(self, update: Update, server: Server) -> float:
        return 0.5
'''
COMPARED = """
from testbed import compare, run

settings = dict(seconds=2, out="runs", report=False, quiet=True)
runs = [run({profile!r}, strategy=name, **settings) for name in ("fedasync", "fedbuff")]
print(compare(runs, metric="loss"))
"""


def script(folder: Path, text: str, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, as a user does."""
    (folder / "script.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env=with_this_code(),
        preexec_fn=before,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_run_from_a_table_has_results_and_a_report(tmp_path: Path) -> None:
    found = run(SMALL, seconds=2, strategy="fedbuff", set={"training.lr": 0.05}, out=tmp_path, quiet=True)
    assert found.summary.strategy == "fedbuff"
    assert found.profile is not None
    assert found.profile.training.lr == 0.05
    assert found.certificate == found.summary.fidelity
    assert found.metrics["version"][0] == 0
    assert {row.device for row in found.devices.rows} == {"rpi4-1", "rpi4-2", "rpi4-3"}
    assert found.meta is not None
    assert found.meta.profile is None, "the profile is not a file"
    assert sum(values.size for values in found.model().values()) == found.meta.calibration.parameters  # type: ignore[union-attr]
    assert (found.path / "report.html").is_file()
    assert "<h1>small</h1>" in found.report().html
    assert Run.open(found.path).summary == found.summary
    assert Run.open(found.path).computed_summary.dispatched == found.summary.dispatched


def test_a_script_compares_two_strategies_without_a_guard(tmp_path: Path) -> None:
    ended = script(tmp_path, COMPARED.format(profile=SMALL))
    assert ended.returncode == 0, ended.stderr
    assert "fedasync" in ended.stdout
    assert "final loss" in ended.stdout


def drop_privileges() -> None:
    """After the exec that follows, root may not raise a priority either (PR_CAPBSET_DROP, CAP_SYS_NICE)."""
    ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_NICE, (0, 0))


def test_a_script_of_an_ordinary_user_starts_one_run_after_the_other(tmp_path: Path) -> None:
    call = f"run({SMALL!r}, set={{'stop.versions': 2}}, report=False, quiet=True)"
    text = f"import os\nfrom testbed import run\n\nfor _ in range(2):\n    {call}\nprint(os.sched_getscheduler(0))\n"
    ended = script(tmp_path, text, before=drop_privileges)
    assert (ended.returncode, ended.stdout) == (0, f"{os.SCHED_OTHER}\n"), ended.stderr


def test_a_class_of_a_script_is_a_strategy(tmp_path: Path) -> None:
    call = f"print(run({SMALL!r}, strategy=Half, seconds=2, report=False, quiet=True).summary.strategy)"
    guarded = f'{OWN}\nif __name__ == "__main__":\n    from testbed import run\n\n    {call}\n'
    ended = script(tmp_path, guarded)
    assert (ended.returncode, ended.stdout) == (0, "__main__:Half\n"), ended.stderr


def test_a_script_needs_no_guard_for_its_own_class(tmp_path: Path) -> None:
    call = f"from testbed import run\n\nprint(run({SMALL!r}, strategy=Half, seconds=2, quiet=True).summary.strategy)"
    ended = script(tmp_path, f"{OWN}\n{call}\n")
    assert (ended.returncode, ended.stdout) == (0, "__main__:Half\n"), ended.stderr


def test_a_class_of_a_script_is_a_strategy_of_a_sweep(tmp_path: Path) -> None:
    call = f"found = sweep({SMALL!r}, strategies=[Half], seconds=2, out='sweep', report=False, quiet=True)"
    body = f"    from testbed import sweep\n\n    {call}\n    print(len(found.runs), found.failed)\n"
    ended = script(tmp_path, f'{OWN}\nif __name__ == "__main__":\n{body}')
    assert (ended.returncode, ended.stdout) == (0, "1 {}\n"), ended.stderr


def test_a_sweep_of_a_script_that_starts_when_it_is_imported_does_not_repeat_itself(tmp_path: Path) -> None:
    call = f"print(sweep({SMALL!r}, strategies=[Half], seconds=2, out='sweep', quiet=True).failed)"
    ended = script(tmp_path, f"{OWN}\nfrom testbed import sweep\n\n{call}\n")
    assert 'put the code that starts runs under if __name__ == "__main__":' in ended.stdout
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name != "__pycache__"] == ["sweep"]


def test_ctrl_c_keeps_the_results_and_leaves_no_process(tmp_path: Path) -> None:
    text = f"""
from testbed import Run, run
from testbed.errors import RunInterrupted

try:
    run({SMALL!r}, out="runs", quiet=True)
except RunInterrupted as error:
    print(Run.open(error.folder).summary.stopped, flush=True)
"""
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=with_this_code(),
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        deadline = time.monotonic() + PATIENCE
        while not any(path.stat().st_size for path in tmp_path.glob("runs/*/trace.jsonl")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, printed) == (0, "interrupted\n")
    gone, alive = psutil.wait_procs(children, timeout=PATIENCE)
    assert len(gone) > 3
    assert not alive


def test_a_plan_says_whether_it_fits() -> None:
    assert plan(SMALL).fits
    assert not plan(SMALL, dilation=1e-4).fits


def test_a_host_that_is_too_small_is_an_exception_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HostTooSmall, match="dilation"):
        run(SMALL, dilation=1e-4, out=tmp_path / "runs", quiet=True)
    assert not (tmp_path / "runs").exists()


def test_a_sweep_of_a_table_continues_and_compares(tmp_path: Path) -> None:
    settings = {"strategies": ["fedasync", "fedbuff"], "seconds": 2, "out": tmp_path / "sweep", "quiet": True}
    found = sweep(SMALL, vary={"training.lr": [0.1]}, report=False, **settings)  # type: ignore[arg-type]
    assert [each.summary.strategy for each in found.runs] == ["fedasync", "fedbuff"]
    assert not found.failed
    assert len(found.compare(metric="loss").values.groups) == 2
    times = [each.trace.stat().st_mtime_ns for each in found.runs]
    again = sweep(SMALL, vary={"training.lr": [0.1]}, report=False, **settings)  # type: ignore[arg-type]
    assert [each.trace.stat().st_mtime_ns for each in again.runs] == times, "finished runs are not repeated"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_documentation_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", with_this_code()["PYTHONPATH"])
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(path, as_version=4)
    assert not any(cell.outputs for cell in book.cells if cell.cell_type == "code"), "store it without outputs"
    NotebookClient(book, timeout=800, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = {kind for cell in book.cells for output in cell.get("outputs", ()) for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds, "tables and a figure are shown"
