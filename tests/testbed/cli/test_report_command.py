"""The command ``report``: the files that it writes, its output, and wrong input."""

from __future__ import annotations

import errno
import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli import main
from tests.testbed.report.examples import HEADER, SMALL, write

ROOT = Path(__file__).parents[3]


def printed(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> tuple[str, str]:
    assert main.main(["report", *map(str, words)]) == code
    output = capsys.readouterr()
    return output.out, output.err


def test_the_page_is_beside_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert printed(capsys, tmp_path) == (f"report: {tmp_path}/report.html\n", "")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == {"trace.jsonl", "report.html"}


def test_a_packed_trace_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    with gzip.open(tmp_path / "trace.jsonl.gz", "wb") as file:
        file.write(path.read_bytes())
    path.unlink()
    assert printed(capsys, tmp_path)[0] == f"report: {tmp_path}/report.html\n"


def test_figures_are_written_as_svg_and_pdf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "run", [event for event in SMALL if event.t < 4.5])
    figures = tmp_path / "a" / "b"
    out, _ = printed(capsys, tmp_path / "run", "--out", tmp_path / "mine.html", "--figures", figures)
    assert out == f"report: {tmp_path}/mine.html\nfigures: {len(list(figures.iterdir()))} files in {figures}\n"
    assert {path.suffix for path in figures.iterdir()} == {".svg", ".pdf"}
    assert (figures / "timeline.pdf").exists()
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("option", ["--out", "--figures"])
def test_a_place_that_cannot_be_written_to_is_an_error(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, [HEADER])
    place = path / "below-a-file" if option == "--figures" else tmp_path / "no" / "such" / "folder.html"
    _, err = printed(capsys, tmp_path, option, place, code=2)
    assert err.startswith("error: ")
    assert "cannot be written: " in err
    assert "choose another place" in err


@pytest.mark.parametrize("place", ["adir", "."])
def test_a_folder_is_refused_as_the_page(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, [HEADER])
    (tmp_path / "adir").mkdir()
    monkeypatch.chdir(tmp_path)
    _, err = printed(capsys, tmp_path, "--out", place, code=2)
    assert err.startswith(f"error: {place}: cannot be written: ")
    assert {path.name for path in tmp_path.iterdir()} == {"trace.jsonl", "adir"}


def test_a_full_disk_is_an_error_that_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, encoding: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write(tmp_path, [HEADER])
    monkeypatch.setattr(Path, "write_text", full)
    _, err = printed(capsys, tmp_path, code=2)
    problem = "cannot be written: No space left on device; choose another place"
    assert err == f"error: {tmp_path}/report.html: {problem}\n"


def test_a_folder_without_a_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = printed(capsys, tmp_path, code=2)
    assert err.startswith(f"error: {tmp_path}: has no trace.jsonl")


# ---- what it needs


@pytest.mark.parametrize("module", ["matplotlib", "jinja2"])
def test_modules_that_only_a_report_needs_are_not_imported_before(module: str) -> None:
    mains = "testbed.cli.main, devices.process.main, aggregator.process.main"
    code = f"import sys, {mains}; sys.exit({module!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)


def test_a_module_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, [HEADER])
    for name in [name for name in sys.modules if name.startswith("testbed.report.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(sys.modules["testbed.report"], name.rpartition(".")[2], raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    _, err = printed(capsys, tmp_path, code=2)
    assert err == "error: a report needs jinja2, which is not installed; install it: pip install jinja2\n"
