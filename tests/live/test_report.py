"""The report at the end of a real run, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import open_page
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, complete, write_profile

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    with nothing_left_over():
        yield complete(write_profile(tmp_path_factory.mktemp("report"), stop={"versions": 12}), report=True)


def test_a_run_ends_with_its_report(reported: Outcome) -> None:
    assert (reported.code, reported.stderr) == (0, "")
    assert reported.stdout.splitlines()[-1] == f"report: {reported.folder}/report.html"
    assert "<h1>small</h1>" in (reported.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.browser
def test_a_browser_shows_the_report(reported: Outcome) -> None:
    lanes = "document.querySelectorAll('#timeline .hint').length"
    page = open_page(reported.folder / "report.html", expressions=[lanes])
    assert (page.console, page.answers) == ([], [3])
    assert f"fidelity: {reported.summary['fidelity']['verdict']}" in page.text
    assert f"final accuracy\n{reported.summary['final_accuracy']:.3f}" in page.text
    assert "versions\n12\n" in page.text
    assert "This is not a whole run" not in page.text


def test_a_run_without_a_report_has_none(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, stop={"versions": 3}), "--no-report", report=True)
    assert outcome.code == 0
    assert not (outcome.folder / "report.html").exists()
