"""The files beside a trace: all of them, none of them, and broken ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from testbed.runs.run_files import RunFiles

from testbed.runs import run_files
from tests.testbed.report.examples import write


def read(trace: Path) -> tuple[RunFiles, list[str]]:
    notes: list[str] = []
    return run_files.read(trace, notes.append), notes


def test_all_files_are_read(tmp_path: Path) -> None:
    found, notes = read(write(tmp_path, beside=True))
    assert found.fidelity is not None
    assert found.replayed is not None
    assert found.meta is not None
    assert (found.fidelity.verdict, [line.name for line in found.fidelity.invariants]) == (
        "WARN",
        ["step time", "loss"],
    )
    assert (found.replayed.mode, found.replayed.delays["download"]) == ("strict", None)
    assert (found.meta.python, found.meta.packages, found.meta.host.cores) == ("3.11.2", {"torch": "2.13.0"}, 2)
    assert (found.task, found.target) == ("digits (model small-cnn)", 0.75)
    assert 'name = "demo"' in found.profile
    assert (found.host_energy, notes) == (None, [])


def test_a_trace_without_other_files_is_accepted(tmp_path: Path) -> None:
    assert read(write(tmp_path)) == (RunFiles(), [])


def test_files_beside_a_trace_of_another_name_are_not_its_own(tmp_path: Path) -> None:
    write(tmp_path, beside=True)
    assert read(write(tmp_path, name="downloaded.jsonl")) == (RunFiles(), [])


def test_the_energy_of_the_host_is_read_from_the_summary(tmp_path: Path) -> None:
    trace = write(tmp_path)
    energy = {"joules": {"package-0": 12.5}, "seconds": 8.0, "what": "measured"}
    (tmp_path / "summary.json").write_text(json.dumps({"name": "demo", "host_energy": energy}), encoding="utf-8")
    found, notes = read(trace)
    assert found.host_energy is not None
    assert (found.host_energy.joules, notes) == ({"package-0": 12.5}, [])


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"verdict": 3}', "\x00", '{"a":' * 5000])
@pytest.mark.parametrize("name", ["fidelity.json", "replay.json"])
def test_a_broken_certificate_is_reported_and_left_out(tmp_path: Path, name: str, text: str) -> None:
    trace = write(tmp_path, beside=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    found, notes = read(trace)
    assert (found.fidelity is None) == (name == "fidelity.json")
    assert (found.replayed is None) == (name == "replay.json")
    assert [note.startswith(f"{name} cannot be read and is left out: ") for note in notes] == [True]


def test_a_broken_profile_is_shown_as_text(tmp_path: Path) -> None:
    trace = write(tmp_path, beside=True)
    (tmp_path / "profile.toml").write_text("name = ", encoding="utf-8")
    found, notes = read(trace)
    assert (found.profile, found.task, found.target, len(notes)) == ("name = ", "", None, 1)


@pytest.mark.parametrize("text", ["task = 3", "task = {}", "stop = 1", 'stop = { target_accuracy = "high" }'])
def test_a_profile_of_another_kind_is_reported(tmp_path: Path, text: str) -> None:
    trace = write(tmp_path)
    (tmp_path / "profile.toml").write_text(text, encoding="utf-8")
    found, notes = read(trace)
    assert (found.task, len(notes)) == ("", 1)


def test_bytes_that_are_no_text_are_reported(tmp_path: Path) -> None:
    trace = write(tmp_path)
    (tmp_path / "profile.toml").write_bytes(b"\xff\xfe")
    assert len(read(trace)[1]) == 2  # nothing to show, and nothing to tell apart


@pytest.mark.parametrize(("task", "described"), [('"mine:Task"', "mine:Task"), ('{ name = "digits" }', "digits")])
def test_a_task_is_described_in_one_line(tmp_path: Path, task: str, described: str) -> None:
    trace = write(tmp_path)
    (tmp_path / "profile.toml").write_text(f"task = {task}", encoding="utf-8")
    assert read(trace) == (RunFiles(profile=f"task = {task}", task=described), [])


def test_the_split_of_a_task_is_part_of_its_description(tmp_path: Path) -> None:
    text = 'task = { name = "digits", split = { name = "dirichlet", alpha = 0.1 } }'
    trace = write(tmp_path, beside=True)
    (tmp_path / "profile.toml").write_text(text, encoding="utf-8")
    assert read(trace)[0].task == "digits (split dirichlet (alpha 0.1))"
