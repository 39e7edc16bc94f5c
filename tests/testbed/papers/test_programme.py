"""A paper's runs: searched first, each once, the unfaithful again, and on where it stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from testbed.common.errors import UserError
from testbed.papers.framework.paper import Paper
from testbed.papers.job_store import NAME
from testbed.papers.programme import ATTEMPTS, Programme
from tests.testbed.papers import parts
from tests.testbed.papers.small import PAPER, Stand, job

SEARCHES = ["search-0.1", "search-0.2", "search-0.4"]
REPORTED = [f"{strategy}-{seed}" for seed in (1, 2, 3) for strategy in ("fedasync", "fedbuff")]


def programme(folder: Path, runner: Stand, paper: Paper = PAPER) -> Programme:
    return Programme(paper, folder, Console(quiet=True), runner)


def carried_out(
    folder: Path, becomes: Callable[[str, int], str] = lambda name, number: "PASS", paper: Paper = PAPER
) -> tuple[Programme, Stand]:
    runner = Stand(becomes)
    found = programme(folder, runner, paper)
    found.carry_out()
    return found, runner


def test_what_holds_for_every_paper_holds_for_the_small_one() -> None:
    parts.check(PAPER)


def test_what_is_searched_for_comes_first_and_is_used(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path)
    assert runner.ran == SEARCHES + REPORTED
    assert found.chosen == {"rate": 0.4}
    assert "--set=training.lr=0.4" in runner.words[-1]
    assert set(found.results) == {*SEARCHES, *REPORTED}
    assert found.host_seconds == 2.0 * len(runner.ran)


def test_a_rule_meets_the_recording_of_its_seed(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path)
    assert f"--replay={found.results['fedasync-2'].folder}" in runner.words[runner.ran.index("fedbuff-2")]
    assert not any(word.startswith("--replay") for word in runner.words[runner.ran.index("fedasync-2")])


def test_the_same_command_again_runs_nothing(tmp_path: Path) -> None:
    first, _ = carried_out(tmp_path)
    second, runner = carried_out(tmp_path)
    assert runner.ran == []
    assert set(second.results) == set(first.results)
    assert second.host_seconds == first.host_seconds


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    first, before = carried_out(tmp_path, lambda name, number: "interrupted" if name == "fedasync-2" else "PASS")
    assert before.ran[-1] == "fedasync-2"
    assert "fedasync-2" not in first.results
    _, after = carried_out(tmp_path)
    assert after.ran == REPORTED[2:]


def test_an_interrupted_search_chooses_nothing_yet(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "interrupted" if name == "search-0.4" else "PASS")
    assert runner.ran == SEARCHES
    assert found.chosen == {"rate": 0.2}


def test_a_run_whose_timing_failed_is_repeated(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "FAIL" if name == "fedbuff-1" and number < 3 else "PASS")
    assert runner.ran.count("fedbuff-1") == 3
    assert (found.results["fedbuff-1"].fidelity, found.results["fedbuff-1"].attempts) == ("PASS", 3)
    assert found.host_seconds == 2.0 * len(runner.ran)


def test_not_for_ever(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "FAIL" if name == "fedbuff-1" else "PASS")
    assert runner.ran.count("fedbuff-1") == ATTEMPTS
    assert found.results["fedbuff-1"].fidelity == "FAIL"


def test_a_run_that_fails_takes_only_its_replays_with_it(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "failed" if name == "fedasync-1" else "PASS")
    assert found.failed == {"fedasync-1": "exit code 1: no"}
    assert found.left_out == {"fedbuff-1": "fedasync-1, whose delays it would meet, was not run"}
    assert runner.ran[-1] == "fedbuff-3"


def test_a_changed_experiment_is_run_again_and_so_is_who_met_it(tmp_path: Path) -> None:
    carried_out(tmp_path)

    def changed(chosen: object) -> list[object]:
        jobs = PAPER.jobs({"rate": 0.4})
        return [dataclasses.replace(jobs[0], settings={"training.lr": 0.7, "stop.seconds": 1}), *jobs[1:]]

    paper = dataclasses.replace(PAPER, jobs=changed)  # type: ignore[arg-type]
    _, runner = carried_out(tmp_path, paper=paper)
    assert runner.ran == ["fedasync-1", "fedbuff-1"]


def test_what_is_half_on_the_disk_is_not_done(tmp_path: Path) -> None:
    carried_out(tmp_path)
    (tmp_path / "fedbuff-1" / NAME).write_text('{"digest": "12', encoding="utf-8")
    next((tmp_path / "fedbuff-2").glob("*/summary.json")).unlink()
    _, runner = carried_out(tmp_path)
    assert runner.ran == ["fedbuff-1", "fedbuff-2"]


def test_without_its_data_a_job_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str) -> None:
        asked.append(name)
        raise UserError(f"{name} is not there; put it into FOLDER")

    monkeypatch.setattr("testbed.learning.data.loader.load", load)

    def with_data(chosen: object) -> list[object]:
        return [job("first"), job("second", data="mnist"), job("third", data="mnist", seed=2), job("fourth", seed=3)]

    found, runner = carried_out(tmp_path, paper=dataclasses.replace(PAPER, searches=(), jobs=with_data))  # type: ignore[arg-type]
    assert runner.ran == ["first", "fourth"]
    assert found.missing == {"mnist": "mnist is not there; put it into FOLDER"}
    assert found.left_out == {"second": "mnist is missing", "third": "mnist is missing"}
    assert not found.failed
    assert asked == ["mnist"]


def test_what_is_still_to_be_done(tmp_path: Path) -> None:
    carried_out(tmp_path, lambda name, number: "interrupted" if name == "fedasync-3" else "PASS")
    assert [job.name for job in programme(tmp_path, Stand()).waiting()] == ["fedasync-3", "fedbuff-3"]
