"""A paper's runs: searches first, each run once, repeated after FAIL, continued after an interruption."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from testbed.common.errors import UserError
from testbed.papers.framework.paper import Paper
from testbed.papers.programme import ATTEMPTS, Programme
from testbed.papers.run_store import NAME
from tests.testbed.papers import parts
from tests.testbed.papers.small import PAPER, Stand, paper_run

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


def test_the_small_paper_passes_the_common_checks() -> None:
    parts.check(PAPER)


def test_searches_come_first_and_their_best_value_is_used(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path)
    assert runner.ran == SEARCHES + REPORTED
    assert found.chosen == {"rate": 0.4}
    assert "--set=training.lr=0.4" in runner.words[-1]
    assert set(found.results) == {*SEARCHES, *REPORTED}
    assert found.host_seconds == 2.0 * len(runner.ran)


def test_a_strategy_replays_the_recording_of_its_seed(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path)
    assert f"--replay={found.results['fedasync-2'].folder}" in runner.words[runner.ran.index("fedbuff-2")]
    assert not any(word.startswith("--replay") for word in runner.words[runner.ran.index("fedasync-2")])


def test_the_same_command_again_runs_nothing(tmp_path: Path) -> None:
    first, _ = carried_out(tmp_path)
    second, runner = carried_out(tmp_path)
    assert runner.ran == []
    assert set(second.results) == set(first.results)
    assert second.host_seconds == first.host_seconds


def test_it_continues_after_an_interruption(tmp_path: Path) -> None:
    first, before = carried_out(tmp_path, lambda name, number: "interrupted" if name == "fedasync-2" else "PASS")
    assert before.ran[-1] == "fedasync-2"
    assert "fedasync-2" not in first.results
    _, after = carried_out(tmp_path)
    assert after.ran == REPORTED[2:]


def test_an_interrupted_search_chooses_nothing_yet(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "interrupted" if name == "search-0.4" else "PASS")
    assert runner.ran == SEARCHES
    assert found.chosen == {"rate": 0.2}


def test_a_run_with_a_fail_certificate_is_repeated(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "FAIL" if name == "fedbuff-1" and number < 3 else "PASS")
    assert runner.ran.count("fedbuff-1") == 3
    assert (found.results["fedbuff-1"].fidelity, found.results["fedbuff-1"].attempts) == ("PASS", 3)
    assert found.host_seconds == 2.0 * len(runner.ran)


def test_a_run_is_not_repeated_for_ever(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "FAIL" if name == "fedbuff-1" else "PASS")
    assert runner.ran.count("fedbuff-1") == ATTEMPTS
    assert found.results["fedbuff-1"].fidelity == "FAIL"


def test_only_the_replays_of_a_failed_run_are_omitted(tmp_path: Path) -> None:
    found, runner = carried_out(tmp_path, lambda name, number: "failed" if name == "fedasync-1" else "PASS")
    assert found.failed == {"fedasync-1": "exit code 1: no"}
    assert found.omitted == {"fedbuff-1": "fedasync-1, which it would replay, was not run"}
    assert runner.ran[-1] == "fedbuff-3"


def test_a_changed_experiment_and_its_replays_are_run_again(tmp_path: Path) -> None:
    carried_out(tmp_path)

    def changed(chosen: object) -> list[object]:
        paper_runs = PAPER.paper_runs({"rate": 0.4})
        return [dataclasses.replace(paper_runs[0], settings={"training.lr": 0.7, "stop.seconds": 1}), *paper_runs[1:]]

    paper = dataclasses.replace(PAPER, paper_runs=changed)  # type: ignore[arg-type]
    _, runner = carried_out(tmp_path, paper=paper)
    assert runner.ran == ["fedasync-1", "fedbuff-1"]


def test_incomplete_files_do_not_count_as_finished(tmp_path: Path) -> None:
    carried_out(tmp_path)
    (tmp_path / "fedbuff-1" / NAME).write_text('{"digest": "12', encoding="utf-8")
    next((tmp_path / "fedbuff-2").glob("*/summary.json")).unlink()
    _, runner = carried_out(tmp_path)
    assert runner.ran == ["fedbuff-1", "fedbuff-2"]


def test_a_run_without_its_data_is_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str) -> None:
        asked.append(name)
        raise UserError(f"{name} is not there; put it into FOLDER")

    monkeypatch.setattr("testbed.learning.data.loader.load", load)

    def with_data(chosen: object) -> list[object]:
        return [
            paper_run("first"),
            paper_run("second", data="mnist"),
            paper_run("third", data="mnist", seed=2),
            paper_run("fourth", seed=3),
        ]

    found, runner = carried_out(tmp_path, paper=dataclasses.replace(PAPER, searches=(), paper_runs=with_data))  # type: ignore[arg-type]
    assert runner.ran == ["first", "fourth"]
    assert found.missing == {"mnist": "mnist is not there; put it into FOLDER"}
    assert found.omitted == {"second": "mnist is missing", "third": "mnist is missing"}
    assert not found.failed
    assert asked == ["mnist"]


def test_runs_that_are_not_finished(tmp_path: Path) -> None:
    carried_out(tmp_path, lambda name, number: "interrupted" if name == "fedasync-3" else "PASS")
    assert [paper_run.name for paper_run in programme(tmp_path, Stand()).waiting()] == ["fedasync-3", "fedbuff-3"]
