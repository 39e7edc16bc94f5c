"""The command ``run``: wrong input is refused in one line before anything begins."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from testbed.cli import main, outcome_text
from testbed.execution.execution import Execution
from testbed.execution.outcome import Outcome
from testbed.profile.schema import Experiment, Replay
from tests.testbed.examples import MINIMAL, write_profile
from tests.testbed.replay.test_replay_setup import PROFILE, recorded


@pytest.fixture(autouse=True)
def own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())


def test_the_key_is_checked_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_profile(tmp_path, f"compress = 1\n{MINIMAL}")
    assert main.main(["run", str(path), "--out", str(tmp_path / "runs")]) == 2
    assert "compress is 1; it must be true or false" in capsys.readouterr().err
    assert main.main(["list", "keys", "--format", "json"]) == 0
    tables = {row["name"]: row["parameters"] for row in json.loads(capsys.readouterr().out)}
    [[_, default, _, meaning]] = [row for row in tables["(top level)"] if row[0] == "compress"]
    assert (default, "compress trace.jsonl" in meaning) == ("False", True)
    assert "trace" in [row[0] for row in tables["[replay]"]]


# ---- TensorBoard


def test_without_tensorboard_a_run_that_wants_it_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    path = write_profile(tmp_path, MINIMAL)
    assert main.main(["run", str(path), "--out", str(tmp_path / "runs"), "--tensorboard"]) == 2
    assert "--tensorboard: needs tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


# ---- a replay


def test_a_wrong_trace_on_the_command_line_is_one_line_that_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", str(write_profile(tmp_path, PROFILE)), "--out", str(tmp_path / "out"), "--replay", "nowhere"]
    assert main.main(words) == 2
    output = capsys.readouterr()
    assert output.err == "error: --replay: replay.trace is 'nowhere'; there is no such run folder or trace\n"
    assert not (tmp_path / "out").exists()


def test_a_mode_without_a_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", str(write_profile(tmp_path, PROFILE)), "--out", str(tmp_path / "out"), "--replay-mode", "strict"]
    assert main.main(words) == 2
    problem = "error: --replay-mode: replay.mode is 'strict', but nothing is replayed; add --replay RUN\n"
    assert capsys.readouterr().err == problem


def test_trace_and_mode_may_be_given_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Experiment] = []

    def execute(this: Execution) -> Outcome:
        asked.append(this.experiment)
        return Outcome(folder=tmp_path)

    monkeypatch.setattr(outcome_text, "execute", execute)
    run = recorded(tmp_path)
    words = ["run", str(write_profile(tmp_path, PROFILE)), "--replay", str(run), "--replay-mode", "strict"]
    assert main.main(words) == 0
    assert asked[0].replay == Replay(trace=str(run), mode="strict")
