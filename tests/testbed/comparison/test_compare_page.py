"""``compare.html`` in a real browser: complete, without console messages, on a large screen and a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.cli import compare_command
from testbed.comparison import compare_page
from tests.browser import open_page
from tests.testbed.comparison.written import comparison_of, write

LEGIBLE = 9.0
"""Pixels: minimum height of text, which is in figures."""
WIDTH = "document.documentElement.scrollWidth"
LETTERS = "Math.min(...[...document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect().height))"
IN_VIEW = """[...document.querySelectorAll('td, th[scope=row], figure, li, p')]
    .filter(part => part.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    runs = [
        write(
            folder / f"{strategy}-{alpha}-{seed}",
            strategy,
            (0.3, 0.5 + 0.1 * alpha, 0.7 + 0.01 * seed),
            seed=seed,
            parameters={"alpha": alpha},
        )
        for strategy, alphas in (("fedavg", (0.5,)), ("fedasync", (0.5, 0.9)), ("my<b>strategy", (0.1,)))
        for alpha in alphas
        for seed in (1, 2, 3)
    ]
    return compare_command.into(folder / "out", runs)[1][0]


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_whole_and_legible(page: Path, width: int, dark: bool) -> None:
    asked = (WIDTH, LETTERS, IN_VIEW, "getComputedStyle(document.body).backgroundColor", "document.compatMode")
    shown = open_page(page, width=width, dark=dark, expressions=asked)
    assert shown.console == []
    scrolled, letters, cut_off, paper, mode = shown.answers
    assert scrolled <= width
    assert letters >= LEGIBLE
    assert cut_off == 0
    assert mode == "CSS1Compat"
    assert paper == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")


@pytest.mark.browser
def test_the_page_has_the_key_figures_and_the_notes(page: Path) -> None:
    text = open_page(page).text
    for word in (
        "fedasync (alpha=0.9)",
        "my<b>strategy",
        "12 runs in 4 groups",
        "0.720 ± 0.025",
        "3 of 3",
        "final accuracy",
        "fedavg − my<b>strategy",
        "smallest possible p",
        "with 3 pairs, p cannot be below 0.25",
        "emulated seconds",
        "J (proxy) of the whole fleet",
        "megabytes transferred",
        "fedavg, 3 runs",
    ):
        assert word in text, word


@pytest.mark.browser
def test_the_page_needs_nothing_else(page: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.html"
    alone.write_bytes(page.read_bytes())
    text = alone.read_text(encoding="utf-8")
    assert "src=" not in text
    assert "<link" not in text
    assert "@import" not in text
    assert open_page(alone).console == []


@pytest.mark.browser
def test_a_run_links_to_its_report_if_it_has_one(tmp_path: Path) -> None:
    one, two = (write(tmp_path / "runs" / f"run {seed}", seed=seed) for seed in (1, 2))
    (one / "report.html").touch()
    page = compare_command.into(tmp_path / "out", [one, two])[1][0]
    links = "[...document.querySelectorAll('a')].map(link => decodeURI(link.href))"
    assert open_page(page, expressions=[links]).answers == [[f"file://{one}/report.html"]]


def test_the_link_to_a_run_works_with_any_folder_name(tmp_path: Path) -> None:
    run = write(tmp_path / "a#b%20?c")
    (run / "report.html").touch()
    page = compare_command.into(tmp_path / "out", [run])[1][0]
    assert 'href="../a%23b%2520%3Fc/report.html"' in page.read_text(encoding="utf-8")


def test_a_fragment_has_the_headline_the_tables_and_the_notes_escaped(tmp_path: Path) -> None:
    found = comparison_of(write(tmp_path / "one", "my<b>&strategy"), write(tmp_path / "two", "fedavg"))
    text = compare_page.fragment(found)
    assert text.count("<table>") == text.count("</table>") == len(found.tables) == 3
    assert text.count("<tr>") == sum(1 + len(table.rows) for table in found.tables)
    assert '<th scope="row">my&lt;b&gt;&amp;strategy</th><td data-column="runs">1</td>' in text
    assert "<b>" not in text
    assert all(line in text for line in ("2 runs in 2 groups; target: accuracy", *found.paired_by))
    assert text.count("<li>") == len(found.paired_by) + len(found.notes)
    assert not any(part in text for part in ("<html", "<style", "<script"))


def test_the_page_has_the_tables_of_the_fragment(tmp_path: Path) -> None:
    found, (page, *_) = compare_command.into(
        tmp_path / "out", [write(tmp_path / "one"), write(tmp_path / "two", "fedasync")]
    )
    tables = [f"<table>{part.split('</table>')[0]}" for part in compare_page.fragment(found).split("<table>")[1:]]
    text = page.read_text(encoding="utf-8")
    assert len(tables) == 3
    assert all(table in text for table in tables)
