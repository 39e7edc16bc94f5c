"""What is importable in the processes of a run: a user's modules only if the profile names them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.runs import PATIENCE, complete, started, with_this_code, write_profile

pytestmark = pytest.mark.live

OPTIONAL = """
from pathlib import Path
Path(__file__).with_suffix(".executed").touch()
raise ImportError("a file that happens to be here")
"""
SCRIPT = """
import sys
from testbed import run

if __name__ == "__main__":
    run(sys.argv[1], report=False, quiet=True)
"""
OWN = """
from dataclasses import dataclass
from aggregator.strategies.per_update.fedasync import FedAsync
import own_neighbour

@dataclass(kw_only=True)
class Own(FedAsync):
    def new_model(self, update, server):
        from own_late_neighbour import note  # in the aggregator, long after the import of this module
        note()
        return super().new_model(update, server)
"""
LATE = """
from pathlib import Path

def note():
    Path(__file__).with_suffix(".used").touch()
"""
A_FEW = {"seconds": 600.0, "versions": 2}


def write_optional(folder: Path) -> None:
    (folder / "opt_einsum.py").write_text(OPTIONAL, encoding="utf-8")


def was_executed(folder: Path) -> bool:
    return (folder / "opt_einsum.executed").exists()


def test_a_run_does_not_execute_a_module_that_torch_would_import_if_it_were_installed(tmp_path: Path) -> None:
    write_optional(tmp_path)
    with started(write_profile(tmp_path, stop=A_FEW)) as run:  # the command itself: a fork has its imports already
        outcome = run.finish()
    assert (outcome.code, was_executed(tmp_path)) == (0, False)


def test_a_script_does_not_execute_it_either(tmp_path: Path) -> None:
    profile = write_profile(tmp_path, stop=A_FEW)
    write_optional(tmp_path)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "go.py"
    script.write_text(SCRIPT, encoding="utf-8")
    words = [sys.executable, str(script), str(profile)]
    found = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, env=with_this_code(), check=False
    )
    assert (found.returncode, was_executed(tmp_path)) == (0, False), found.stderr


def test_a_strategy_of_a_user_imports_its_neighbours_and_torch_does_not(tmp_path: Path) -> None:
    write_optional(tmp_path)
    (tmp_path / "own_strategy_of_a_user.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "own_neighbour.py").write_text("import torch", encoding="utf-8")
    (tmp_path / "own_late_neighbour.py").write_text(LATE, encoding="utf-8")
    outcome = complete(write_profile(tmp_path, strategy="own_strategy_of_a_user:Own", stop=A_FEW))
    assert (outcome.code, was_executed(tmp_path)) == (0, False), outcome.stderr
    assert (tmp_path / "own_late_neighbour.used").exists()
