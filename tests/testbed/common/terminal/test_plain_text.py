"""Names of others cannot control the terminal."""

from __future__ import annotations

import json
import sys

import pytest

from testbed.common.terminal import plain_text

TITLE = "\x1b]0;owned\x07"
RED = "\x1b[31mred"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe … 汉字 😀 caf\udce9", "größe … 汉字 😀 caf\udce9"),
        (RED, r"\x1b[31mred"),
        (TITLE, r"\x1b]0;owned\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\x08\x7f", r"a\rb\x08\x7f"),
        ("exe\u202egpj", r"exe\u202egpj"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert plain_text.plain(text) == plain_text.plain_line(text) == shown


def test_a_text_keeps_its_lines_and_a_line_is_one() -> None:
    assert plain_text.plain("a\n\tb") == "a\n\tb"
    assert plain_text.plain_line("a\n\tb") == r"a\n\tb"


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    plain_text.show_json(json.dumps({"name": "\x9b31m\u202e\x7f"}, ensure_ascii=False))
    printed = capsys.readouterr().out
    assert printed == '{"name": "\\u009b31m\\u202e\\u007f"}\n'
    assert json.loads(printed) == {"name": "\x9b31m\u202e\x7f"}


def test_errors_and_warnings_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    plain_text.show_error(f"key {RED}\n is\twrong")
    plain_text.show_warning(f"{RED} has\ndied")
    assert capsys.readouterr().err == "error: key \\x1b[31mred is wrong\nwarning: \\x1b[31mred has\\ndied\n"


def test_an_error_without_standard_error_is_not_printed_to_the_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        plain_text.show_error("lost")
    assert capsys.readouterr().out == ""
