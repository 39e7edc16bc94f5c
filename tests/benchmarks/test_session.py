"""Sessions with benchmarks that measure nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.benchmarks.__main__ import main
from tests.benchmarks.options import Options, command_line, options, parser
from tests.benchmarks.records import history
from tests.benchmarks.records.figure import Figure, at_most
from tests.benchmarks.session import Session

MET, MISSED = (Figure(row=row, value=value, unit="s", aim=at_most(1.0)) for row, value in (("a", 0.5), ("b", 2.0)))


def benchmark(*figures: Figure, end: BaseException | None = None, turns: int = 1) -> Any:
    def measure(given: Options) -> Iterator[Figure]:
        yield from figures
        if end is not None:
            raise end

    return SimpleNamespace(__doc__="A test.", measure=measure, TURNS=turns)


def session(tmp_path: Path, given: Options | None = None, *, keep: bool = True) -> Session:
    return Session(given or Options(), command="test", keep=keep, file=tmp_path / "history.jsonl")


def kept(tmp_path: Path) -> list[history.Line]:
    path = tmp_path / "history.jsonl"
    return history.read(path.read_text(encoding="utf-8")) if path.exists() else []


def test_each_figure_is_kept_and_missed_aims_are_counted(tmp_path: Path) -> None:
    one = session(tmp_path)
    one.run("race", benchmark(MET, MISSED))
    assert [(line.row, line.reached) for line in kept(tmp_path)] == [("a", True), ("b", False)]
    assert (one.figures, one.missed) == (2, 1)


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        session(tmp_path).run("race", benchmark(MET, end=KeyboardInterrupt()))
    assert [line.row for line in kept(tmp_path)] == ["a"]


def test_a_benchmark_that_fails_does_not_end_the_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = session(tmp_path)
    one.run("race", benchmark(MET, end=RuntimeError("the host is too slow")))
    one.run("wire", benchmark(MET))
    assert [line.benchmark for line in kept(tmp_path)] == ["race", "wire"]
    assert one.failed == 1
    assert "the host is too slow" in capsys.readouterr().out


def test_a_trial_keeps_nothing(tmp_path: Path) -> None:
    session(tmp_path, keep=False).run("race", benchmark(MET))
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("given", "quick"),
    [(Options(), False), (Options(turns=1), True), (Options(turns=3), False), (Options(quick=True), True)],
)
def test_fewer_repetitions_than_usual_make_a_quick_figure(tmp_path: Path, given: Options, quick: bool) -> None:
    session(tmp_path, given).run("race", benchmark(MET, turns=3))
    assert kept(tmp_path)[0].quick is quick


def test_figures_of_another_checkout_are_named_by_its_commit(tmp_path: Path) -> None:
    (tmp_path / "run_testbed.py").write_text("", encoding="utf-8")
    session(tmp_path, Options(checkout=tmp_path)).run("capacity", benchmark(MET))
    [line] = kept(tmp_path)
    assert line.checkout
    assert line.column == f"measured at {line.commit}"


def test_options_choose_rows() -> None:
    given = options(parser(("race",)).parse_args(["race", "--turns", "1", "--devices", "10", "--size", "small"]))
    assert given.chosen((10, 100)) == (10,)
    assert given.sizes == ("small",)
    assert given.modes == ("sync", "async")
    assert given.repeats(3) == 1


def test_an_unknown_benchmark_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["marathon"]) == 2
    assert "no benchmark 'marathon'; known: startup, race" in capsys.readouterr().err


def test_a_folder_without_the_program_is_no_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["capacity", "--checkout", str(tmp_path)])
    assert "has no run_testbed.py" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--checkout", "/home/me/old"], ["--checkout=/home/me/old"]])
def test_the_recorded_command_names_no_folder_of_this_machine(given: list[str]) -> None:
    words = ["capacity", *given, "--quick"]
    assert command_line(words) == "python -m tests.benchmarks capacity --checkout DIR --quick"
