"""``sweep`` from the command line, with runs that only write their folder; real ones are in tests/live."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.sweeps.runner import Ended, Runner
from tests.testbed.comparison.written import write
from tests.testbed.examples import MINIMAL, write_profile


class Imaginary:
    """Stands in for the runs of a sweep."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.fails: set[str] = set()
        self.scores: tuple[float, ...] = (0.25, 0.625)
        self.interrupts: str | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    def run(self, runner: Runner, words: Sequence[str], out: Path, progress: Callable[[float], None]) -> Ended:
        self.started.append(out.name)
        progress(0.5)
        self.meanwhile()
        if self.interrupts == out.name:
            runner.interrupted_by = signal.SIGINT
        strategy, seed = out.name.rsplit("-seed", 1)
        folder = write(out / "run", strategy, self.scores, seed=int(seed), ended=out.name != self.interrupts)
        failed = out.name in self.fails
        return Ended(
            code=130 if out.name == self.interrupts else int(failed),
            seconds=2.0,
            run_folder=folder,
            accuracy=0.625,
            problem="exit code 1: my own bug" if failed else "",
        )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Imaginary:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr("testbed.comparison.compare_figures.draw", lambda table, runs: iter(()))
    found = Imaginary()
    monkeypatch.setattr(Runner, "run", lambda runner, *words: found.run(runner, *words))
    return found


def swept(folder: Path, *words: str) -> int:
    profile = write_profile(folder, MINIMAL)
    strategies = ("--strategy", "fedavg,fedasync", "--seeds", "2")
    return main.main(["sweep", str(profile), *strategies, "--out", str(folder / "out"), *words])


NAMES = ["fedavg-seed1", "fedavg-seed2", "fedasync-seed1", "fedasync-seed2"]


def test_every_run_is_one_line_and_all_are_compared(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(tmp_path) == 0
    assert runs.started == NAMES
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[:4] == [
        "run 1 of 4: fedavg-seed1: done in 2 s, accuracy 0.625; about 6 s left",
        "run 2 of 4: fedavg-seed2: done in 2 s, accuracy 0.625; about 4 s left",
        "run 3 of 4: fedasync-seed1: done in 2 s, accuracy 0.625; about 2 s left",
        "run 4 of 4: fedasync-seed2: done in 2 s, accuracy 0.625",
    ]
    assert lines[4].startswith("4 runs in 2 groups; target: accuracy of at least 0.6 ")
    assert (tmp_path / "out" / "compare.html").is_file()


def test_finished_runs_are_not_repeated(runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert swept(tmp_path) == 0
    assert swept(tmp_path) == 0
    assert runs.started == NAMES
    assert "4 of 4 runs are finished already" in capsys.readouterr().out


def test_a_sweep_continues_after_a_failed_run_and_the_next_one_repeats_it(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.fails = {"fedavg-seed2"}
    assert swept(tmp_path) == 1
    output = capsys.readouterr()
    assert "run 2 of 4: fedavg-seed2: failed, exit code 1: my own bug" in output.out
    assert "3 runs in 2 groups" in output.out
    assert output.err == ("error: fedavg-seed2 failed, exit code 1: my own bug; repeat the command to run it again\n")
    runs.fails = set()
    assert swept(tmp_path) == 0
    assert runs.started == [*NAMES, "fedavg-seed2"]
    assert (tmp_path / "out" / "unfinished" / "fedavg-seed2-1").is_dir()


def test_ctrl_c_ends_the_sweep_and_the_same_command_continues_it(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.interrupts = "fedavg-seed2"
    assert swept(tmp_path) == 130
    assert "interrupted; repeat the command to continue" in capsys.readouterr().out
    assert (tmp_path / "out" / "fedavg-seed2" / "run" / "trace.jsonl").is_file()  # kept for inspection
    assert not (tmp_path / "out" / "compare.html").exists()
    runs.interrupts = None
    assert swept(tmp_path) == 0
    assert runs.started == [*NAMES[:2], *NAMES[1:]]


def test_the_folder_of_a_sweep_stands_for_its_finished_runs(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.fails = {"fedavg-seed2"}
    swept(tmp_path)
    capsys.readouterr()
    assert main.main(["compare", str(tmp_path / "out"), "--out", str(tmp_path / "compared")]) == 0
    assert "3 runs in 2 groups" in capsys.readouterr().out


def test_a_sweep_without_a_finished_run_cannot_be_compared(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.fails = set(NAMES)
    assert swept(tmp_path) == 1
    assert len(capsys.readouterr().err.splitlines()) == 4
    assert main.main(["compare", str(tmp_path / "out")]) == 2
    assert "no run of this sweep is finished; repeat its command" in capsys.readouterr().err


def test_runs_that_cannot_be_compared_are_kept(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.scores = ()
    assert swept(tmp_path) == 1
    assert "the runs are done, but cannot be compared: " in capsys.readouterr().err


def test_a_dry_run_lists_the_runs_and_changes_nothing(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert swept(tmp_path, "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:5]] == [[name, "waiting", "60"] for name in NAMES]
    assert lines[5] == "4 of 4 runs to do, about 4 min 00 s, and a few seconds more to start each"
    assert not (tmp_path / "out").exists()
    assert runs.started == []
    runs.interrupts = "fedavg-seed2"
    swept(tmp_path)
    capsys.readouterr()
    assert swept(tmp_path, "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:5]] == ["done", "interrupted", "waiting", "waiting"]
    assert lines[5].startswith("3 of 4 runs to do, about 6 s")  # as long as the one that is done


def test_another_plan_is_refused_in_one_line(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swept(tmp_path) == 0
    capsys.readouterr()
    assert swept(tmp_path, "--set", "training.lr=0.3") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "contains another sweep: the experiment of fedavg-seed1 is not the same" in line
    assert runs.started == NAMES


@pytest.mark.parametrize(
    ("edited", "reason"),
    [(f"{MINIMAL}\n[training]\nlr = 0.3\n", "it is another experiment now"), ("name = ", "not valid TOML")],
)
def test_a_profile_that_changes_during_the_sweep_ends_it(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str], edited: str, reason: str
) -> None:
    runs.meanwhile = lambda: write_profile(tmp_path, edited)
    assert swept(tmp_path) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "fedavg-seed2: " in line
    assert reason in line
    assert "finished runs are kept: change it back and repeat the command" in line
    runs.meanwhile = lambda: None
    assert swept(tmp_path) == 0
    assert runs.started == NAMES


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_dry_run_refuses_a_file_as_the_run_itself_does(
    runs: Imaginary, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "file").touch()
    for words in ((), ("--dry-run",)):
        assert swept(tmp_path, "--out", str(tmp_path / place), *words) == 2
        assert f"--out {tmp_path / place}: cannot be written to: " in capsys.readouterr().err
