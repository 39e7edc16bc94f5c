"""Our programs import our packages from the project's folder, and nothing else from there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.runs import ROOT

PROGRAM = """
import json
from testbed.common.finders import own_packages
own_packages.confine({arguments})
import aggregator, devices, run_testbed, testbed.common.version
try:
    import opt_einsum
    found = True
except ImportError:
    found = False
print(json.dumps([found, own_packages.is_on_path(), testbed.__file__]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what a program imports, with a module that does not belong to it."""
    for name in ("testbed/__init__.py", "aggregator/__init__.py", "devices/__init__.py", "run_testbed.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "aggregator" / "__init__.py").write_text("", encoding="utf-8")
    for room in ("finders", "."):
        (tmp_path / "testbed" / "common" / room).mkdir(parents=True, exist_ok=True)
        for file in (ROOT / "testbed" / "common" / room).glob("*.py"):
            shutil.copy(file, tmp_path / "testbed" / "common" / room)
    (tmp_path / "opt_einsum.py").touch()
    return tmp_path


def carry_out(project: Path, arguments: str, **variables: str) -> list[object]:
    (project / "program.py").write_text(PROGRAM.format(arguments=arguments), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    words = [sys.executable, str(project / "program.py")]
    found = subprocess.run(words, capture_output=True, check=True, timeout=60, cwd="/", env=environment)
    answer: list[object] = json.loads(found.stdout)
    return answer


def test_a_program_finds_our_packages_and_nothing_else_in_their_folder(project: Path) -> None:
    assert carry_out(project, "") == [False, False, str(project / "testbed" / "__init__.py")]


def test_where_our_packages_are_installed_their_folder_stays(project: Path) -> None:
    assert carry_out(project, "", PYTHONPATH=str(project))[:2] == [True, True]
    variables = {"PYTHONPATH": str(project), "PYTHONSAFEPATH": "1"}
    assert carry_out(project, "stays=True", **variables)[:2] == [True, True]
    assert carry_out(project, "stays=False", **variables)[:2] == [False, False]


def test_a_folder_of_others_stays_first(tmp_path: Path) -> None:
    code = (
        "import sys; from testbed.common.finders import own_packages;"
        "sys.path.insert(0, sys.argv[1]); before = sys.path.copy();"
        "own_packages.confine(); sys.exit(sys.path != before)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, timeout=60)
