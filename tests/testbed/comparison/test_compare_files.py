"""The files of a comparison."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from testbed.comparison import compare_files
from tests.testbed.comparison.written import compared, six, write


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return six(tmp_path)


def test_a_strategy_whose_name_is_a_formula_is_marked_as_text(tmp_path: Path) -> None:
    compare_files._write_csv(tmp_path / "runs.csv", {"strategy": ["=1+1"], "=seed": [-3.0]})
    assert (tmp_path / "runs.csv").read_text(encoding="utf-8") == "strategy,'=seed\n'=1+1,-3.0\n"


def test_every_file_is_written_with_the_same_figures(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    table = compared(capsys, out, *folders)
    assert {path.name for path in out.iterdir()} == {
        "compare.html",
        "compare.md",
        "compare.tex",
        "compare.csv",
        "paired.csv",
        "runs.csv",
        "figures",
    }
    names = {f"accuracy-over-{axis}.{kind}" for axis in ("seconds", "joules", "bytes") for kind in ("svg", "pdf")}
    assert {path.name for path in (out / "figures").iterdir()} == names
    assert sorted(table["files"]) == sorted(str(path) for path in out.rglob("*.*"))
    with (out / "compare.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 10
    final = next(row for row in rows if row["group"] == "fedavg" and row["quantity"] == "final")
    assert float(final["low"]) == pytest.approx(float(final["mean"]) - float(final["half"]))
    with (out / "runs.csv").open(newline="") as file:
        assert [row["seed"] for row in csv.DictReader(file)] == ["1", "2", "3"] * 2
    with (out / "paired.csv").open(newline="") as file:
        pairs = list(csv.DictReader(file))
    units = {"seconds_to_target": "s", "joules_to_target": "J (proxy)", "final": ""}
    assert pairs == [
        {key: str(value) for key, value in row.items()} | {"unit": units[row["quantity"]]} for row in table["paired"]
    ]
    assert pairs[0]["p"] == "0.25"
    markdown = (out / "compare.md").read_text()
    assert "| fedavg | 3 | 0.58 ± 0.18 |" in markdown
    assert "![accuracy over seconds](figures/accuracy-over-seconds.svg)" in markdown
    latex = (out / "compare.tex").read_text()
    assert r"fedavg & 3 & 0.58 $\pm$ 0.18 &" in latex
    assert latex.count(r"\toprule") == latex.count(r"\end{tabular}") == 3
    assert "svg" in (out / "compare.html").read_text()


def test_the_same_runs_give_the_same_files(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = []
    for name in ("one", "two"):
        compared(capsys, tmp_path / name, *folders)
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")})
    assert contents[0] == contents[1]


def test_a_metric_for_which_less_is_better(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = compared(capsys, tmp_path / "out", *folders, "--metric", "loss", "--target", "0.4")
    assert [group["reached"] for group in table["groups"]] == [3, 2]
    assert [group["values"]["best"]["mean"] for group in table["groups"]] == [0.125, pytest.approx(0.41667, abs=1e-5)]
    assert (tmp_path / "out" / "figures" / "loss-over-seconds.svg").is_file()


def test_unknown_quantities_have_no_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared(capsys, tmp_path / "out", write(tmp_path / "one", watts=False))
    names = {path.name for path in (tmp_path / "out" / "figures").glob("*.svg")}
    assert names == {"accuracy-over-seconds.svg", "accuracy-over-bytes.svg"}


def test_names_do_not_become_markup_in_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "one", "my_rule:*<b>|x\ny", metric="top_5|*")
    compared(capsys, tmp_path / "out", run, "--metric", "top_5|*")
    markdown = (tmp_path / "out" / "compare.md").read_text()
    assert r"| my\_rule:\*\<b\>\|x y | 1 |" in markdown
    assert r"| strategy | runs | final top\_5\|\* |" in markdown
