"""The page in a browser: on a large screen and a phone, in light and dark mode, and printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.execution import report_writing
from tests.browser import Page, open_page
from tests.testbed.report.examples import NASTY, SMALL, gathered, large, renamed, write

pytestmark = pytest.mark.browser

_LETTERS = """Math.min(...[...document.querySelectorAll("figure svg text")].map(text =>
    parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a))"""
"""Minimum height of text in figures, in pixels."""
_WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    names = {"a": "rpi4-10", "b": "rpi4-9"}
    [out] = report_writing.write(gathered(write(folder, renamed(SMALL, **names), beside=True)), folder / "report.html")
    return out


def clean(page: Page) -> Page:
    assert page.console == []
    return page


def test_key_figures_certificate_and_lanes_are_on_the_page(report: Path) -> None:
    lanes = "[...document.querySelectorAll('#timeline .hint title')].map(title => title.textContent.split(':')[0])"
    shown = "[...document.querySelectorAll('#timeline svg text')].map(text => text.textContent)"
    images = "[...document.querySelectorAll('#timeline image')].map(image => image.getBoundingClientRect().width > 500)"
    page = clean(open_page(report, expressions=[lanes, shown, images]))
    for text in (
        "fidelity: WARN",
        "1 of 2 invariants hold",
        "strict replay of",
        "final accuracy\n0.750",
        "energy (proxy)",
    ):
        assert text in page.text
    assert page.answers[0] == ["rpi4-10", "rpi4-9"]
    assert {"rpi4-10", "rpi4-9"} <= set(page.answers[1])
    assert page.answers[2] == [True]
    assert 'name = "demo"' not in page.text  # folded away


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_as_wide_as_the_screen_and_its_letters_are_legible(report: Path, width: int) -> None:
    page = clean(open_page(report, width=width, expressions=[_WIDTH, _LETTERS]))
    assert page.answers[0] == width
    assert page.answers[1] >= 9.5


def test_wide_parts_scroll_separately_on_a_phone(report: Path) -> None:
    boxes = "[...document.querySelectorAll('.scroll')].map(box => [box.scrollWidth > box.clientWidth, box.tabIndex])"
    assert clean(open_page(report, width=390, expressions=[boxes])).answers == [[[True, 0], [True, 0]]]


@pytest.mark.parametrize("dark", [False, True])
def test_figures_have_the_text_colour_of_the_page(report: Path, dark: bool) -> None:
    inks = """(() => {
        const colour = (element, key) => getComputedStyle(element)[key];
        return [colour(document.body, "backgroundColor"), colour(document.body, "color"),
            colour(document.querySelector("#accuracy svg text"), "fill")];
    })()"""
    paper, ink, figure = clean(open_page(report, dark=dark, expressions=[inks])).answers[0]
    assert (paper == "rgb(255, 255, 255)") != dark
    assert figure == ink != paper


def test_the_printed_page_is_light_and_fits_the_paper(report: Path) -> None:
    light = "getComputedStyle(document.body).backgroundColor"
    page = clean(open_page(report, width=720, dark=True, media="print", expressions=[light, _WIDTH]))
    assert page.answers == ["rgb(255, 255, 255)", 720]


def test_a_heading_sorts_devices_and_shows_the_direction(report: Path) -> None:
    page = clean(open_page(report, expressions=[*pressed("device", 2), *pressed("applied", 2), *pressed("energy", 1)]))
    assert page.answers == [
        ["ascending", ["rpi4-9", "rpi4-10"]],
        ["descending", ["rpi4-10", "rpi4-9"]],
        ["descending", ["rpi4-10", "rpi4-9"]],
        ["ascending", ["rpi4-9", "rpi4-10"]],
        ["descending", ["rpi4-10", "rpi4-9"]],
    ]


def pressed(title: str, times: int) -> list[str]:
    return [
        f"""(() => {{
        const headings = [...document.querySelectorAll("#fleet thead th")];
        const heading = headings.find(th => th.innerText.startsWith("{title}"));
        heading.firstElementChild.click();
        const names = [...document.querySelectorAll("#fleet tbody th")].map(th => th.innerText);
        return [heading.ariaSort, names];
    }})()"""
    ] * times


def test_a_nasty_name_does_not_run(tmp_path: Path) -> None:
    names = {"a": NASTY.replace("alert(1)", "document.title=1"), "b": '"><img src=x onerror=document.title=1>'}
    (tmp_path / "profile.toml").write_text(f'task = "</pre>{NASTY}"', encoding="utf-8")
    [out] = report_writing.write(gathered(write(tmp_path, renamed(SMALL, **names))), tmp_path / "report.html")
    page = clean(open_page(out, expressions=["document.title", "document.scripts.length", "document.images.length"]))
    assert page.answers == ["demo: fedasync, seed 7", 1, 0]


def test_100_devices_have_a_lane_each(tmp_path: Path) -> None:
    [out] = report_writing.write(gathered(write(tmp_path, large(100, 60.0))), tmp_path / "report.html")
    lanes = "document.querySelectorAll('#timeline .hint').length"
    page = clean(
        open_page(out, width=390, expressions=[lanes, _WIDTH, "document.querySelectorAll('#fleet tbody tr').length"])
    )
    assert page.answers == [100, 390, 100]
