from __future__ import annotations

import math

import pytest

from testbed.report.content import wording


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (0, "0"),
        (7, "7"),
        (3.0, "3"),
        (1234567, "1\u202f234\u202f567"),
        (0.97222, "0.972"),
        (12.345, "12.3"),
        (1234.5, "1\u202f234"),
        (0.00001234, "1.23e-05"),
        (-2.5, "-2.5"),
        (999.4, "999"),
        (999.9, "1\u202f000"),
        (-999.5, "-1\u202f000"),
    ],
)
def test_numbers_have_three_figures(value: float | None, text: str) -> None:
    assert wording.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0 %"), (0.0001, "< 1 %"), (0.015, "2 %"), (0.5, "50 %"), (1.0, "100 %")]
)
def test_a_small_share_is_not_shown_as_0(value: float | None, text: str) -> None:
    assert wording.share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (999.6, "1 kB"), (12_345, "12.3 kB"), (5e9, "5 GB"), (7e15, "7e+03 TB")],
)
def test_sizes_are_scaled(value: float | None, text: str) -> None:
    assert wording.size(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.0, "0 J"), (486.2, "486 J"), (31_600.0, "31.6 kJ")])
def test_joules_are_scaled(value: float | None, text: str) -> None:
    assert wording.joules(value) == text


def test_characters_that_xml_forbids_are_replaced() -> None:
    assert wording.printable("a\x00\x1b[31m\ufffe\tb\nc 中 🙂") == "a\ufffd\ufffd[31m\ufffd\tb\nc 中 🙂"


def test_a_count_of_one_is_singular() -> None:
    assert [wording.plural(count, "device") for count in (0, 1, 2)] == ["0 devices", "1 device", "2 devices"]


def test_seconds() -> None:
    assert [wording.seconds(value) for value in (None, 0.0, 12.34)] == ["–", "0.0 s", "12.3 s"]
