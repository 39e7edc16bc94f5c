"""What a report takes from the files beside a trace: all of them, none of them, and broken ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from testbed.host.rapl import HostEnergy
from testbed.report.content.report_data import RunData
from tests.testbed.report.examples import gathered, write


def missing(run: RunData) -> bool:
    """Whether a report has nothing from any file but the trace."""
    from_files = (run.certificate, run.replay, run.meta, run.host_energy, run.summary.target_accuracy)
    return from_files == (None,) * 5 and (run.profile, run.task) == ("", "")


def test_all_files_are_read(tmp_path: Path) -> None:
    run = gathered(write(tmp_path, beside=True))
    assert run.certificate is not None
    assert run.replay is not None
    assert run.meta is not None
    assert (run.certificate.verdict, [line.name for line in run.certificate.invariants]) == (
        "WARN",
        ["step time", "loss"],
    )
    assert (run.replay.mode, run.replay.delays["download"]) == ("strict", None)
    assert (run.meta.python, run.meta.packages, run.meta.host.cores) == ("3.11.2", {"torch": "2.13.0"}, 2)
    assert (run.task, run.summary.target_accuracy) == ("digits (model small-cnn)", 0.75)
    assert 'name = "demo"' in run.profile
    assert (run.host_energy, run.notes) == (None, [])


def test_a_trace_without_other_files_is_accepted(tmp_path: Path) -> None:
    run = gathered(write(tmp_path))
    assert (missing(run), run.notes) == (True, [])


def test_files_beside_a_trace_of_another_name_are_not_its_own(tmp_path: Path) -> None:
    write(tmp_path, beside=True)
    run = gathered(write(tmp_path, name="downloaded.jsonl"))
    assert (missing(run), run.notes) == (True, [])


def test_the_energy_of_the_host_is_read_from_the_summary(tmp_path: Path) -> None:
    trace = write(tmp_path)
    energy = HostEnergy(joules={"package-0": 12.5}, seconds=8.0, what="measured")
    stored = msgspec.structs.replace(gathered(trace).summary, host_energy=energy)
    (tmp_path / "summary.json").write_bytes(msgspec.json.encode(stored))
    run = gathered(trace)
    assert (run.host_energy, run.notes) == (energy, [])


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"verdict": 3}', "\x00", '{"a":' * 5000])
@pytest.mark.parametrize("name", ["fidelity.json", "replay.json"])
def test_a_broken_certificate_is_reported_and_left_out(tmp_path: Path, name: str, text: str) -> None:
    trace = write(tmp_path, beside=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    run = gathered(trace)
    assert (run.certificate is None) == (name == "fidelity.json")
    assert (run.replay is None) == (name == "replay.json")
    [note] = run.notes
    assert note.startswith(f"{tmp_path / name}: is not ")
    assert note.endswith("; it is left out")


def test_a_broken_summary_is_reported_and_its_figures_are_those_of_the_trace(tmp_path: Path) -> None:
    trace = write(tmp_path, beside=True)
    (tmp_path / "summary.json").write_text('{"schema": 1, "applied"', encoding="utf-8")
    run = gathered(trace)
    [note] = run.notes
    assert note.startswith(f"{tmp_path / 'summary.json'}: is not complete")
    assert (run.summary.applied, run.host_energy) == (2, None)


def test_a_broken_profile_is_shown_as_text(tmp_path: Path) -> None:
    trace = write(tmp_path, beside=True)
    (tmp_path / "profile.toml").write_text("name = ", encoding="utf-8")
    run = gathered(trace)
    assert (run.profile, run.task, run.summary.target_accuracy, len(run.notes)) == ("name = ", "", None, 1)


@pytest.mark.parametrize("text", ["task = 3", "task = {}", "stop = 1", 'stop = { target_accuracy = "high" }'])
def test_a_profile_of_another_kind_has_no_task_and_no_target(tmp_path: Path, text: str) -> None:
    trace = write(tmp_path)
    (tmp_path / "profile.toml").write_text(text, encoding="utf-8")
    run = gathered(trace)
    assert (run.task, run.summary.target_accuracy, run.profile) == ("", None, text)


def test_bytes_that_are_no_text_are_reported(tmp_path: Path) -> None:
    trace = write(tmp_path)
    (tmp_path / "profile.toml").write_bytes(b"\xff\xfe")
    run = gathered(trace)
    [note] = run.notes
    assert note.startswith(f"{tmp_path / 'profile.toml'}: cannot be read: ")
    assert missing(run)


@pytest.mark.parametrize(("task", "described"), [('"mine:Task"', "mine:Task"), ('{ name = "digits" }', "digits")])
def test_a_task_is_described_in_one_line(tmp_path: Path, task: str, described: str) -> None:
    trace = write(tmp_path)
    (tmp_path / "profile.toml").write_text(f"task = {task}", encoding="utf-8")
    run = gathered(trace)
    assert (run.profile, run.task, run.notes) == (f"task = {task}", described, [])


def test_the_split_of_a_task_is_part_of_its_description(tmp_path: Path) -> None:
    text = 'task = { name = "digits", split = { name = "dirichlet", alpha = 0.1 } }'
    trace = write(tmp_path, beside=True)
    (tmp_path / "profile.toml").write_text(text, encoding="utf-8")
    assert gathered(trace).task == "digits (split dirichlet (alpha 0.1))"
