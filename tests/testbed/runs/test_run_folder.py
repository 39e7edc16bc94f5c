"""The run folder: its name, its files, and errors if it cannot be created."""

from __future__ import annotations

import csv
import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from testbed.cli import outcome_text
from testbed.common.errors import UserError
from testbed.execution.outcome import Outcome
from testbed.history import trace
from testbed.history.events.run_events import PROCESS_ENDED
from testbed.host.core_plan import CorePlan
from testbed.host.priority import Policy
from testbed.host.survey import StepTime, Survey
from testbed.loading import profile_loader
from testbed.planning import planner
from testbed.runs.run_folder import RunFolder
from tests.testbed.analysis.histories import joined, scripted
from tests.testbed.analysis.test_metrics import EVENTS
from tests.testbed.examples import MINIMAL, device_spec, write_profile
from tests.testbed.runs.folders import new_folder, plain, write_results

MOMENT = datetime(2024, 1, 2, 3, 4, 5)


def test_the_name_of_a_run_folder_has_the_experiment_and_the_moment(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path / "deep" / "down", "demo", MOMENT)
    assert folder.path == tmp_path / "deep" / "down" / "demo-20240102-030405"
    assert (folder.path / "logs").is_dir()


def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    paths = [RunFolder.new(tmp_path, "demo", MOMENT).path for _ in range(3)]
    assert [path.name for path in paths] == [f"demo-20240102-030405{tail}" for tail in ("", "-2", "-3")]
    assert all(path.is_dir() for path in paths)


@pytest.mark.parametrize("tail", [".", "below", "below/deep"])
def test_a_folder_that_cannot_be_written_to_is_refused_with_a_remedy(tmp_path: Path, tail: str) -> None:
    # root may write anywhere, except below something that is not a folder
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / tail
    with pytest.raises(UserError, match=r"cannot be written to: .*; choose another folder") as caught:
        RunFolder.new(out, "demo", MOMENT)
    assert str(caught.value).startswith(f"--out {out}: ")


def test_a_run_that_did_not_begin_leaves_nothing(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path, "demo", MOMENT)
    (folder.path / "logs" / "a.log").write_text("x")
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def filled(out: Path) -> RunFolder:
    return new_folder(out, EVENTS)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_results_follow_from_the_trace(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    summary = write_results(folder, [device_spec("a"), device_spec("b")])
    assert (summary.applied, summary.in_flight) == (3, 2)
    assert json.loads((folder.path / "summary.json").read_text(encoding="utf-8")) == plain(summary)
    assert rows(folder.path / "metrics.csv") == [
        {
            "time_s": "3.2",
            "host_s": "8.0",
            "version": "1",
            "joules": "",
            "bytes": "2460",
            "accuracy": "0.8",
            "loss": "",
        },
        {
            "time_s": "5.0",
            "host_s": "12.5",
            "version": "2",
            "joules": "",
            "bytes": "2460",
            "accuracy": "0.5",
            "loss": "1.25",
        },
    ]
    assert [row["version"] for row in rows(folder.path / "versions.csv")] == ["1", "2", "3"]
    devices = rows(folder.path / "devices.csv")
    assert [(row["device"], row["jobs"], row["bytes_up"]) for row in devices] == [("a", "4", "840"), ("b", "4", "420")]


def test_the_certificate_is_in_a_file_of_its_own_and_in_the_summary(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    summary = write_results(folder, [device_spec("a"), device_spec("b")])
    certificate = json.loads((folder.path / "fidelity.json").read_text(encoding="utf-8"))
    assert plain(summary.fidelity) == certificate
    assert certificate["dilation"] == 2.5
    verdicts = {line["name"]: line["verdict"] for line in certificate["invariants"]}
    assert verdicts["conservation"] == "PASS"
    assert verdicts["step time"] == "FAIL"  # b asked for 1.9 s and obtained 3
    assert certificate["verdict"] == "FAIL"


def test_a_run_without_a_trace_has_results_too(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path, "demo", MOMENT)
    summary = write_results(folder, ())
    assert summary.fidelity is not None
    assert (summary.dispatched, summary.fidelity.verdict) == (0, "not measured")
    assert rows(folder.path / "metrics.csv") == []


def test_empty_logs_are_removed(tmp_path: Path) -> None:
    folder = RunFolder.new(tmp_path, "demo", MOMENT)
    for name, text in (("quiet", ""), ("loud", "a problem")):
        (folder.path / "logs" / f"{name}.log").write_text(text)
    write_results(folder, ())
    assert os.listdir(folder.path / "logs") == ["loud.log"]


def test_versions_host_and_plan_of_a_run_are_recorded(tmp_path: Path) -> None:
    experiment = profile_loader.load(write_profile(tmp_path, f"seed = 5\n{MINIMAL}"))
    folder = RunFolder.new(tmp_path, "demo", MOMENT)
    step = StepTime(samples=32, seconds=0.002, alone=0.0015, slow=0.003)
    survey = Survey(parameters=1000, samples=(100,), steps=(step,), crowd={1: 1}, governor="powersave")
    cores = CorePlan(aggregator=1, evaluator=1, devices=(0,), policy=Policy.REAL_TIME)
    pids = {"aggregator": 41, "rpi4-1": 42}
    folder.write_meta(experiment, planner.plan(experiment, survey, cores, 2.0), pids, tmp_path / "mine.toml")
    meta = json.loads((folder.path / "meta.json").read_text(encoding="utf-8"))
    assert meta["seed"] == 5
    assert meta["core_plan"] == {
        "aggregator": 1,
        "evaluator": 1,
        "devices": [0],
        "pinned": True,
        "policy": "real-time",
    }
    assert meta["dilation"] == 2.0
    assert meta["demand"].keys() == {"0", "1"}
    assert 0 < meta["demand"]["1"] < 1
    assert meta["calibration"]["steps"] == [{"samples": 32, "seconds": 0.002, "alone": 0.0015, "slow": 0.003}]
    assert meta["calibration"]["crowd"] == {"1": 1}
    assert meta["profile"] == str(tmp_path / "mine.toml")
    assert meta["pids"] == {"launcher": os.getpid(), "aggregator": 41, "rpi4-1": 42}
    assert {"torch", "numpy", "pyzmq"} <= meta["packages"].keys()
    assert meta["host"]["memory_bytes"] > 0


def test_results_that_cannot_be_written_are_named_and_the_others_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = filled(tmp_path)
    for name in ("versions.csv.new", "summary.json.new"):  # root may write anywhere, but not over a folder
        (folder.path / name).mkdir()
    summary = write_results(folder, [device_spec("a"), device_spec("b")])
    assert summary.applied == 3
    assert folder.unwritten == dict.fromkeys(("versions.csv", "summary.json"), "Is a directory")
    assert (folder.path / "devices.csv").is_file()
    assert not (folder.path / "summary.json").exists()
    outcome = Outcome(folder=folder.path, unwritten=folder.unwritten)
    assert outcome_text.show(outcome, Console(), quiet=False, as_json=False) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        f"error: {folder.path}: versions.csv, summary.json cannot be written: Is a directory; free disk space"
    )
    assert error.endswith(f"run_testbed.py report {folder.path} writes a page from it\n")


def test_a_profile_that_cannot_be_written_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    experiment = profile_loader.load(write_profile(tmp_path, MINIMAL))
    folder = RunFolder.new(tmp_path / "runs", "demo", MOMENT)
    (folder.path / "profile.toml.new").mkdir()
    with pytest.raises(UserError, match="cannot be written to: Is a directory; free some space, or choose"):
        folder.write_profile(experiment)


def test_an_unplanned_new_process_is_a_restart_and_a_scripted_rejoin_is_not(tmp_path: Path) -> None:
    events = (
        joined(),
        joined(at=2.0),
        scripted("kill", 3.0),
        scripted("rejoin", 4.0),
        replace(joined(at=4.0), pid=2),
        replace(joined(at=5.0), pid=3),
        replace(joined(at=6.0), pid=3),
    )
    assert write_results(new_folder(tmp_path, events), [device_spec("a")]).restarts == 1


@pytest.mark.parametrize(("reason", "restarts"), [("it was silent for too long", 0), (PROCESS_ENDED, 1)])
def test_new_processes_of_a_resumed_run_are_no_restarts(tmp_path: Path, reason: str, restarts: int) -> None:
    resumed = trace.Resumed(t=3.0, version=0, undone=0, dilation=1.0, started="")
    events = (joined(), resumed, trace.Left(t=4.0, device="a", reason=reason), replace(joined(at=5.0), pid=2))
    assert write_results(new_folder(tmp_path, events), [device_spec("a")]).restarts == restarts


def test_a_folder_that_was_released_can_be_opened_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(UserError, match="this run is under way"):
        RunFolder(tmp_path)
    folder.release()
    folder.release()
    RunFolder(tmp_path).release()
