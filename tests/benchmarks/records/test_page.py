from __future__ import annotations

import pytest

from tests.benchmarks.__main__ import BENCHMARKS
from tests.benchmarks.records import history, page
from tests.benchmarks.records.examples import example
from tests.benchmarks.records.page import PageError

PAGE = "# Title\n\n<!-- bench race: begin -->\nold\n<!-- bench race: end -->\n\nText by hand.\n"


def test_the_page_agrees_with_the_history() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    lines = history.read(history.FILE.read_text(encoding="utf-8"))
    assert page.write(text, lines) == text, "run `make bench-page`"


def test_the_page_has_a_place_for_each_benchmark() -> None:
    assert sorted(page.places(page.PAGE.read_text(encoding="utf-8"))) == sorted(BENCHMARKS)


def test_only_what_is_between_the_marks_is_replaced() -> None:
    new = page.write(PAGE, [example()])
    assert new.startswith("# Title\n\n<!-- bench race: begin -->\n|")
    assert new.endswith("<!-- bench race: end -->\n\nText by hand.\n")
    assert "old" not in new
    assert page.write(new, [example()]) == new


def test_a_row_has_its_figures_as_columns_with_unit_and_aim() -> None:
    lines = [example(), example(column="floor", value=336.0, values=[], aim="", reached=None)]
    new = page.write(PAGE, lines)
    assert "| | ours in updates/s (≥ 150) | floor in updates/s | of |" in new
    assert "| 10 devices | 176 (170 to 181) | 336 | 2026-11-18 abc1234 |" in new
    assert "Measured by: `python -m tests.benchmarks race`.\n" in new


def test_units_and_aims_that_differ_stand_in_the_cells() -> None:
    lines = [example(), example(row="--help", value=0.1, values=[], unit="s", aim="≤ 0.15")]
    new = page.write(PAGE, lines)
    assert "| 10 devices | 176 updates/s (170 to 181) (≥ 150) |" in new
    assert "| --help | 0.1 s (≤ 0.15) |" in new


def test_a_missed_aim_is_bold_and_a_note_follows_the_table() -> None:
    new = page.write(PAGE, [example(value=99.0, values=[], reached=False, note="a busy host")])
    assert "| **99** |" in new
    assert "- 10 devices, ours: a busy host" in new


def test_figures_of_older_code_are_marked_as_old() -> None:
    present = example(row="100 devices", code="new", date="2026-11-20T00:00:00Z")
    new = page.write(PAGE, [example(), present])
    assert "| *old:* 2026-11-18 abc1234 |" in new
    assert "| 2026-11-20 abc1234 |" in new


def test_figures_of_a_busy_host_are_marked() -> None:
    assert "abc1234 on a busy host |" in page.write(PAGE, [example(pressure=[0.6, 1.0])])


def test_figures_that_are_much_older_are_dropped() -> None:
    new = page.write(PAGE, [example(date="2025-01-01T00:00:00Z"), example(row="100 devices")])
    assert "| 10 devices |" not in new


def test_figures_of_another_checkout_do_not_make_the_present_code_old() -> None:
    before = example(column="ours at 3acb935", code="before", checkout=True, date="2026-11-20T00:00:00Z")
    assert "*old:*" not in page.write(PAGE, [example(), before])


def test_rows_with_other_columns_are_a_table_of_their_own() -> None:
    new = page.write(PAGE, [example(), example(row="300 devices", column="ready", unit="s", aim="")])
    assert new.count("| of |") == 2


def test_a_benchmark_without_a_place_in_the_page_is_an_error() -> None:
    with pytest.raises(PageError, match="wire"):
        page.write(PAGE, [example(benchmark="wire")])
