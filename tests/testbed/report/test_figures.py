"""Figures: their number, their texts, their size, and their place in a page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from testbed.history import trace
from testbed.history.trace import Event
from testbed.report import sections
from testbed.report.figures import inline_svg, style
from testbed.report.figures.style import INK, ReportFigure
from tests.testbed.analysis import histories
from tests.testbed.report.examples import HEADER, NASTY, SMALL, gathered, large, renamed, without_power, write

EVERY = [
    "accuracy",
    "timeline",
    "staleness",
    "staleness-distribution",
    "energy",
    "waste",
    "contribution",
    "local-loss",
    "updates-per-version",
    "latency",
]


@pytest.fixture(autouse=True)
def our_style() -> Iterator[None]:
    with style.style():
        yield


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[ReportFigure, str]]:
    """The figures of the small run, and as parts of a page."""
    with style.style():
        found = drawn(tmp_path_factory.mktemp("small"), SMALL)
        return {name: (picture, inline_svg.svg(picture)) for name, picture in found.items()}


def drawn(folder: Path, events: list[Event]) -> dict[str, ReportFigure]:
    found = sections.draw(gathered(write(folder, events)))
    return {picture.name: picture for section in found for picture in section.pictures}


def texts(picture: ReportFigure) -> list[str]:
    root = ElementTree.fromstring(inline_svg.svg(picture))
    return [element.text or "" for element in root.iter("text")]


# ---- existence


def test_every_figure_in_its_order(small: dict[str, tuple[ReportFigure, str]]) -> None:
    assert list(small) == EVERY


def test_a_strategy_that_plans_rounds_has_a_figure_of_its_time_usage(tmp_path: Path) -> None:
    plan = trace.Planned(
        t=0.0, version=0, devices=["a"], shares=[1.0], remaining=[0.0], seconds=1.0, queue=0.0, spent=0.0, budget=8.0
    )
    planned = [event for one in SMALL for event in ((one, plan) if isinstance(one, trace.Header) else (one,))]
    figures = drawn(tmp_path, planned)
    of_rounds = ["round-latency", "degree", "queue", "round-staleness", "time-usage"]
    assert list(figures) == [*EVERY[:2], *of_rounds, *EVERY[2:]]
    assert [texts(figures[name])[-1] for name in of_rounds] == [
        "T_t (seconds)",
        "K_t (updates)",
        "q_t (seconds)",
        "mean staleness (versions)",
        "seconds so far ÷ T_max",
    ]
    assert figures["round-latency"].gist == "3.5 s on average, 4 s at most."
    assert figures["time-usage"].gist.startswith("38 % of the time budget was used after 2 rounds.")


def test_each_metric_has_a_figure_and_a_harmless_name(tmp_path: Path) -> None:
    scores = {"accuracy": 0.5, "loss": -1.0, "../F1 $x": 0.25, "F1/x": 0.5}
    scored = trace.Scored(t=7.5, version=2, made=7.0, metrics=scores)
    found = drawn(tmp_path, [*SMALL[:-1], scored, SMALL[-1]])
    assert list(found)[:4] == ["accuracy", "loss", "metric-2-F1-x", "metric-3-F1-x"]
    assert found["loss"].gist == "From -1 to -1 in 1 scored version; the lowest (-1, dot) at 7.0 s."


def test_a_run_in_which_nothing_was_scored_has_all_but_learning(tmp_path: Path) -> None:
    events = [event for event in SMALL if not isinstance(event, trace.Scored)]
    assert list(drawn(tmp_path, events)) == EVERY[1:]


def test_a_run_that_only_began_has_no_figures_and_notes_instead(tmp_path: Path) -> None:
    found = sections.draw(gathered(write(tmp_path, [HEADER])))
    assert not [picture for section in found for picture in section.pictures]
    assert {section.title: section.note for section in found} == {
        "Learning": "No version was scored.",
        "The fleet over time": "No device joined.",
        "Staleness": "No update became part of a version.",
        "Energy": "No device has a power model, so there are no joules.",
        "Contribution and local loss": "No update arrived.",
        "Versions": "No version was made.",
    }


def test_without_power_models_there_is_no_figure_of_joules(tmp_path: Path) -> None:
    assert {"energy", "waste"}.isdisjoint(drawn(tmp_path, without_power(SMALL, "a", "b")))


def test_only_devices_with_a_power_model_are_in_figures_of_joules(tmp_path: Path) -> None:
    found = drawn(tmp_path, without_power(SMALL, "b"))
    assert "a" in texts(found["energy"])
    assert "b" not in texts(found["energy"])
    assert "waste" not in found  # b wasted an unknown amount


# ---- texts


def test_gists(small: dict[str, tuple[ReportFigure, str]]) -> None:
    gists = {name: picture.gist for name, (picture, _) in small.items()}
    assert gists["accuracy"] == "From 0.5 to 0.75 in 2 scored versions; the highest (0.75, dot) at 7.0 s."
    assert gists["timeline"] == (
        "2 devices, one lane each, over 8.0 s: idle 41 %, download 12 %, computing 25 %, upload 9 %, dead 12 %."
        " 1 lost transfer. Scripted: kill b at 4.0 s, rejoin b at 6.0 s."
    )
    assert gists["staleness"].startswith("Of 2 applied updates: 0 on average, 0 at most. Line: median")
    assert gists["waste"].endswith(
        "for updates that became part of no version, most of it because they were unfinished."
    )
    assert gists["contribution"].startswith(
        "Jain 0.500 (1: all are equal), Gini 0.500 (0: all are equal); most by a, 100 %"
    )
    assert gists["latency"].startswith("3.5 s on average over 2 versions, 4 s at most.")
    assert "proxy" in gists["energy"]


def test_the_timeline_has_a_lane_for_each_device_with_its_name(
    small: dict[str, tuple[ReportFigure, str]],
) -> None:
    timeline, svg = small["timeline"]
    root = ElementTree.fromstring(svg)
    lanes = [element for element in root.iter("g") if element.get("class") == "hint"]
    assert [lane.get("id") for lane in lanes] == ["timeline-lane-0", "timeline-lane-1"]
    assert [lane.findtext("title") for lane in lanes] == [
        "a: idle 12 %, download 19 %, computing 50 %, upload 19 %",
        "b: idle 69 %, download 6 %, dead 25 %",
    ]
    assert {"a", "b", "dead", "lost transfer", "scripted event", "version"} <= set(texts(timeline))


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    found = drawn(tmp_path, renamed(SMALL, a="$x_1$ \\frac{", b="<&\">'"))
    assert {"$x_1$ \\frac{", "<&\">'"} <= set(texts(found["timeline"]))


def test_a_name_without_glyphs_is_text_and_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with style.style():
            timeline = drawn(tmp_path / "run", renamed(SMALL, a="手机"))["timeline"]
            assert "手机" in texts(timeline)
            style.save(timeline, tmp_path)
    assert warned == []


def test_a_control_character_leaves_every_file_whole(tmp_path: Path) -> None:
    timeline = drawn(tmp_path / "run", renamed(SMALL, a="a\x00\x1bz"))["timeline"]
    assert "a\ufffd\ufffdz" in texts(timeline)
    ElementTree.parse(style.save(timeline, tmp_path)[0])


def test_staleness_of_a_synchronous_strategy_is_visible_with_integer_ticks(
    small: dict[str, tuple[ReportFigure, str]],
) -> None:
    over_time, distribution = (small[name][0].figure.axes[0] for name in ("staleness", "staleness-distribution"))
    low, high = over_time.get_ylim()
    assert (-0.1 < low < 0, high) == (True, 1.0)
    assert distribution.get_xlim() == (-0.6, 1.6)
    for ticks in (over_time.get_yticks(), distribution.get_xticks()):
        assert {0.0, 1.0} <= set(ticks)
        assert all(tick == int(tick) for tick in ticks)


def test_a_long_name_is_cut_in_its_middle(tmp_path: Path) -> None:
    found = drawn(tmp_path, renamed(SMALL, a="a-device-with-a-very-long-name-12"))
    assert "a-device-…-name-12" in texts(found["contribution"])


# ---- in a page


def test_a_figure_uses_the_text_colour_of_the_page(small: dict[str, tuple[ReportFigure, str]]) -> None:
    for _, svg in small.values():
        assert INK not in svg
        assert "currentColor" in svg


def test_ids_in_figures_are_unique_and_all_references_resolve(
    small: dict[str, tuple[ReportFigure, str]],
) -> None:
    every: list[str] = []
    for _, svg in small.values():
        names = re.findall(r'\bid="([^"]+)"', svg)
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(names)
        every += names
    assert len(every) == len(set(every))


def test_a_figure_brings_no_style_and_no_size_into_the_page(small: dict[str, tuple[ReportFigure, str]]) -> None:
    for _, svg in small.values():
        root = ElementTree.fromstring(svg)
        assert {"viewBox", "role", "aria-label"} <= set(root.attrib)
        assert not {"width", "height"} & set(root.attrib)
        assert not [element for element in root.iter() if element.tag in ("style", "metadata", "script")]


def test_a_nasty_name_is_text(tmp_path: Path) -> None:
    for picture in drawn(tmp_path, renamed(SMALL, a=NASTY)).values():
        assert "<script" not in inline_svg.svg(picture)


def test_a_figure_has_a_description_for_screen_readers(small: dict[str, tuple[ReportFigure, str]]) -> None:
    for picture, svg in small.values():
        assert ElementTree.fromstring(svg).get("aria-label") == f"{picture.title}. {picture.gist}"


# ---- for a paper


def test_the_same_run_gives_the_same_files(small: dict[str, tuple[ReportFigure, str]], tmp_path: Path) -> None:
    again = drawn(tmp_path / "run", SMALL)
    for name in ("accuracy", "timeline"):
        files = [[path.read_bytes() for path in style.save(each, tmp_path)] for each in (small[name][0], again[name])]
        assert files[0] == files[1]
        assert files[0][0].startswith(b"<?xml")
        assert files[0][1].startswith(b"%PDF")


def test_a_users_own_settings_of_matplotlib_do_not_matter(
    small: dict[str, tuple[ReportFigure, str]], tmp_path: Path
) -> None:
    with mpl.rc_context({"lines.linewidth": 9.0, "font.size": 30, "axes.facecolor": "red"}), style.style():
        assert inline_svg.svg(drawn(tmp_path, SMALL)["accuracy"]) == small["accuracy"][1]


def test_settings_are_restored() -> None:
    with mpl.rc_context({"lines.linewidth": 9.0}):
        with style.style():
            assert mpl.rcParams["lines.linewidth"] == 1.5
        assert mpl.rcParams["lines.linewidth"] == 9.0


# ---- long runs


@pytest.mark.slow
def test_figures_of_500_devices_stay_small_with_one_lane_each(tmp_path: Path) -> None:
    found = drawn(tmp_path, list(large(500, 30.0)))
    assert len(found["timeline"].hints) == 500
    sizes = {name: len(inline_svg.svg(picture)) for name, picture in found.items()}
    assert sizes["timeline"] < 2_000_000
    assert max(size for name, size in sizes.items() if name != "timeline") < 500_000


def test_hundreds_of_versions_are_ticks_and_thousands_are_not(tmp_path: Path) -> None:
    def run(versions: int) -> list[Event]:
        made: list[Event] = []
        for number in range(1, versions + 1):
            at = 8.0 * number / (versions + 1)
            made += [histories.sent(number, at, "a"), histories.made(number, at, number)]
        return [HEADER, histories.joined("a"), *made, histories.stopped(8.0)]

    assert "version" in texts(drawn(tmp_path / "few", run(400))["timeline"])
    assert "version" not in texts(drawn(tmp_path / "many", run(401))["timeline"])


def test_a_run_of_no_seconds_has_figures(tmp_path: Path) -> None:
    assert list(drawn(tmp_path, [HEADER, histories.joined("a"), histories.stopped(0.0)])) == ["timeline", "energy"]
