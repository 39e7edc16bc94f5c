"""The document: a section for each paper. Writing one leaves the others unchanged."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from rich.console import Console

from testbed.papers import __main__ as command
from testbed.papers import document
from testbed.papers.all_papers import PAPERS
from testbed.papers.programme import Programme
from tests.testbed.papers import parts
from tests.testbed.papers.small import PAPER, Stand

OTHER = dataclasses.replace(PAPER, name="other", title="Another paper")


@pytest.fixture(autouse=True)
def papers(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"small": PAPER, "other": OTHER}
    monkeypatch.setattr(document, "PAPERS", known)
    monkeypatch.setattr(command, "PAPERS", known)


def done(folder: Path, paper: object = PAPER, verdict: str = "PASS") -> Programme:
    runner = Stand(lambda name, number: verdict if name == "fedbuff-1" else "PASS")
    programme = Programme(paper, folder, Console(quiet=True), runner)  # type: ignore[arg-type]
    programme.carry_out()
    return programme


def test_claims_measurements_searches_and_certificates(tmp_path: Path) -> None:
    document.write(tmp_path / "papers.md", [done(tmp_path / "runs", verdict="WARN")])
    text = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert "| Table I | a ∣ b | 0.400 | **agrees** |  |" in text
    assert "| rate | `training.lr` | 0.1: 0.4, 0.2: 0.4, **0.4: 0.8** | final accuracy |" in text
    assert "The best value is the first or the last one tried, so that a better one may be beyond it: rate.\n" in text
    assert "9 runs, reported seeds 1, 2, 3, 18 s on this host; certificates: PASS 8, WARN 1." in text
    assert "The runs of these took **18 s** in all" in text
    assert "Not measured yet: Another paper (`make papers PAPER=other`)." in text
    assert "--replay=RUN" in text
    assert "![A line](papers/small-line.png)" in text
    assert (tmp_path / "papers" / "small-line.png").stat().st_size > 1000


def test_other_sections_stay_unchanged(tmp_path: Path) -> None:
    target = tmp_path / "papers.md"
    document.write(target, [done(tmp_path / "a"), done(tmp_path / "b", OTHER)])
    both = target.read_text(encoding="utf-8")
    document.write(target, [done(tmp_path / "a")])
    assert target.read_text(encoding="utf-8") == both
    assert both.count("## Another paper") == 1
    assert "`make papers` took **36 s** in all" in both
    assert "Not measured yet" not in both


def test_without_runs_the_rows_say_so(tmp_path: Path) -> None:
    programme = Programme(PAPER, tmp_path / "runs", Console(quiet=True), Stand())
    programme.missing["digits-on-disk"] = "it is not there"
    document.write(tmp_path / "papers.md", [programme])
    text = (tmp_path / "papers.md").read_text(encoding="utf-8")
    remedy = "put its files into FOLDER/digits-on-disk and run `EDGEBED_DATA=FOLDER make papers PAPER=small`"
    assert f"| **not run** | the data set digits-on-disk is missing: {remedy} |" in text
    assert f"Omitted, because the data set digits-on-disk is missing: {remedy}" in text


def test_repeated_and_failed_runs_are_counted(tmp_path: Path) -> None:
    def becomes(name: str, number: int) -> str:
        return {"fedbuff-1": "FAIL" if number == 1 else "PASS", "fedbuff-2": "failed"}.get(name, "PASS")

    programme = Programme(PAPER, tmp_path / "runs", Console(quiet=True), Stand(becomes))
    programme.carry_out()
    document.write(tmp_path / "papers.md", [programme])
    text = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert "; repeated because of their certificates: 1." in text
    assert "Failed: fedbuff-2 (exit code 1: no)." in text


def run(tmp_path: Path, *words: str) -> int:
    return command.main(["--out", str(tmp_path / "runs"), "--document", str(tmp_path / "papers.md"), *words])


def test_an_unknown_paper_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, "smal")
    assert ended.value.code == 2
    assert "'smal' is not a paper; choose from small, other" in capsys.readouterr().err


def test_a_dry_run_lists_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "small", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "small/fedbuff-3: run quickstart.toml --seed=3 --strategy=fedbuff" in out
    assert "small: 9 runs to do" in out
    assert not (tmp_path / "papers.md").exists()


@pytest.mark.parametrize(("becomes", "code"), [("PASS", 0), ("failed", 1), ("interrupted", 130)])
def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str, code: int) -> None:
    monkeypatch.setattr(command, "Runner", lambda: Stand(lambda name, number: becomes))
    assert run(tmp_path, "small") == code
    assert (tmp_path / "papers.md").exists() == (code != 130)


def test_write_only_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Stand()
    monkeypatch.setattr(command, "Runner", lambda: runner)
    assert run(tmp_path, "small", "--write-only") == 0
    assert not runner.ran
    assert "The best value is" not in (tmp_path / "papers.md").read_text(encoding="utf-8"), "nothing was tried"
    assert "**not run**" in (tmp_path / "papers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAPERS)
def test_the_shipped_document_has_the_texts_of_the_code(name: str) -> None:
    text = (Path(__file__).parents[3] / "docs" / "papers.md").read_text(encoding="utf-8")
    assert document._HEAD in text
    section = text.partition(f"<!-- begin {name} ")[2].partition(f"<!-- end {name} -->")[0]
    paper = PAPERS[name]
    chapter = paper.chapter({}, parts.chosen(paper))
    assert chapter.setting in section
    for row in chapter.rows:
        assert f"| {row.where} | {row.claim} |" in section
    for search in paper.searches:
        assert f"| {search.name} | `{search.key}` |" in section
        assert search.measure in section
    for table in chapter.tables:
        assert f"**{table.title}**\n\n| {' | '.join(table.header)} |\n" in section
