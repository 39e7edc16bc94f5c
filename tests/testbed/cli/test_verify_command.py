"""``run_testbed.py verify``: what it prints, and its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from testbed.api.run import Run
from testbed.cli import main
from tests.testbed.verification.one_process import OneProcess


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = OneProcess(tmp_path_factory.mktemp("verify"))
    made.run(until=0.7)
    return made.finish()


@pytest.fixture
def changed(run: Path, tmp_path: Path) -> Path:
    """The same run with another seed in its profile."""
    folder = Path(shutil.copytree(run, tmp_path / "changed"))
    text = (folder / "profile.toml").read_text(encoding="utf-8")
    (folder / "profile.toml").write_text(text.replace("seed = 3", "seed = 4", 1), encoding="utf-8")
    return folder


def test_a_verified_run_is_one_line_and_code_0(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["verify", str(run)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{run}: verified: fedasync, ")


def test_a_departure_is_one_line_and_code_1(run: Path, changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["verify", str(run), str(changed)]) == 1
    _, line = capsys.readouterr().out.splitlines()
    assert line == f"{changed}: departs at line 1, header: expected seed 4, found 3"


def test_a_run_that_cannot_be_verified_is_one_error_and_code_2(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["verify", str(tmp_path), str(run)]) == 2
    output = capsys.readouterr()
    assert output.err.count("\n") == 1
    assert "has no trace.jsonl; name the folder of a run" in output.err
    assert "verified" in output.out


def test_all_runs_below_a_folder_are_verified_and_other_files_are_skipped(
    run: Path, changed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, changed.parent / "below" / "same")
    (changed.parent / "notes.txt").write_text("no run", encoding="utf-8")
    assert main.main(["verify", "--all", *map(str, changed.parent.iterdir()), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert sorted(each["verdict"] for each in found["runs"]) == ["departs", "verified"]
    assert found["impossible"] == {}


def test_a_folder_without_runs_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["verify", "--all", str(tmp_path)]) == 2
    assert "there is no run in these folders; " in capsys.readouterr().err


def test_the_python_api_verifies_a_run(run: Path, changed: Path) -> None:
    assert Run.open(run).verify().verdict == "verified"
    departure = Run.open(changed).verify().departure
    assert departure is not None
    assert departure.line == 1
