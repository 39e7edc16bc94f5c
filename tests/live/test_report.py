"""The report at the end of a real run, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import open_page
from tests.live.runs import complete, write_profile

pytestmark = pytest.mark.live


def test_a_run_ends_with_its_report(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, stop={"versions": 12}), report=True)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines()[-1] == f"report: {outcome.folder}/report.html"
    lanes = "document.querySelectorAll('#timeline .hint').length"
    page = open_page(outcome.folder / "report.html", expressions=[lanes])
    assert (page.console, page.answers) == ([], [3])
    assert f"fidelity: {outcome.summary['fidelity']['verdict']}" in page.text
    assert f"final accuracy\n{outcome.summary['final_accuracy']:.3f}" in page.text
    assert "versions\n12\n" in page.text
    assert "This is not a whole run" not in page.text


def test_a_run_without_a_report_has_none(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, stop={"versions": 3}), "--no-report", report=True)
    assert outcome.code == 0
    assert not (outcome.folder / "report.html").exists()
