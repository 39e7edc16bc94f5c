"""What the command line imports before it answers: modules are counted, not seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli.list_command import _LISTS
from testbed.cli.parsers import list_parser
from testbed.runs.results import result_schemas

ROOT = Path(__file__).parents[3]
MACHINERY = {"numpy", "rich", "torch", "msgspec", "psutil", "zmq", "matplotlib", "jinja2", "sklearn", "multiprocessing"}
COMMANDS = (
    "run",
    "resume",
    "plan",
    "sweep",
    "list",
    "data",
    "doctor",
    "report",
    "compare",
    "trace",
    "theory",
    "verify",
)


def imported_by(*words: str) -> set[str]:
    """Return the modules that a command line imports in an interpreter of its own."""
    code = (
        "import atexit, sys; from run_testbed import main;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); raise SystemExit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("words", ["--help", "--version", *(f"{command} --help" for command in COMMANDS)])
def test_help_and_version_import_no_machinery(words: str) -> None:
    assert not imported_by(*words.split()) & MACHINERY


def test_help_imports_no_module_that_does_the_work_of_a_command() -> None:
    assert not [name for name in imported_by("--help") if name.endswith("_command")]


@pytest.mark.parametrize("what", ["devices", "links"])
def test_a_list_of_profiles_is_printed_without_arrays_and_tables(what: str) -> None:
    assert not imported_by("list", what) & (MACHINERY - {"msgspec"})


@pytest.mark.parametrize("what", ["strategies", "tasks", "splits"])
def test_a_list_of_names_is_printed_without_rich(what: str) -> None:
    assert "rich" not in imported_by("list", what)


def test_the_help_names_every_list_and_every_result_file() -> None:
    assert tuple(_LISTS) == list_parser.LISTS
    assert tuple(result_schemas.RESULT_FILES) == list_parser.RESULT_FILES


def test_a_name_that_is_not_utf_8_is_printed_as_its_bytes() -> None:
    code = "import run_testbed; run_testbed.main = lambda: print('é caf\\udce9') or 0; run_testbed.script()"
    for encoding, printed in (("utf-8", "é".encode() + b" caf\xe9\n"), ("utf-8:backslashreplace", None)):
        variables = os.environ | {"PYTHONIOENCODING": encoding}
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, printed or "é caf\\udce9\n".encode())


def test_a_command_ends_with_its_exit_code_and_all_of_its_output() -> None:
    for words, code in (("--version", 0), ("list splits", 0), ("report absent", 2), ("fly", 2)):
        done = subprocess.run(
            [sys.executable, "run_testbed.py", *words.split()], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == code
        assert done.stdout if code == 0 else done.stderr
