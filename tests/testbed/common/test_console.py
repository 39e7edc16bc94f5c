"""Text on a terminal."""

from __future__ import annotations

import ast
import io
import os
import sys
from pathlib import Path

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text

from testbed.common.console import TerminalConsole, milliseconds, say


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0000 ms"),
        (1e-7, "0.0001 ms"),
        (1.234e-5, "0.0123 ms"),
        (1.234e-3, "1.23 ms"),
        (0.01234, "12.3 ms"),
        (0.1234, "123 ms"),
        (1.234, "1234 ms"),
    ],
)
def test_milliseconds_have_three_significant_figures_and_at_most_four_decimals(seconds: float, text: str) -> None:
    assert milliseconds(seconds) == text


def printed(*shown: object, width: int = 100) -> str:
    text = io.StringIO()
    console = TerminalConsole(file=text, width=width, force_terminal=True)
    console.print(*shown, soft_wrap=True)
    return text.getvalue()


def test_texts_cannot_control_the_terminal_but_styles_can() -> None:
    assert printed(Text("\x1b[2Jname\x9b1m", style="bold")) == "\x1b[1m\\x1b[2Jname\\x9b1m\x1b[0m\n"


def test_names_in_tables_cannot_control_the_terminal() -> None:
    table = Table("device", box=None)
    table.add_row(Text("\x1b[2Jname"))
    assert "\x1b[2J" not in printed(table)
    assert "\\x1b[2J" in printed(table)


def test_a_live_table_still_moves_the_cursor() -> None:
    text = io.StringIO()
    with Live(Text("a\x1b[2Jb"), console=TerminalConsole(file=text, width=100, force_terminal=True), transient=True):
        pass
    assert "\x1b[?25l" in text.getvalue()
    assert "\x1b[2J" not in text.getvalue()


def test_what_is_said_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(TerminalConsole(), "[red]a\x1b[31m\nb")
    assert capsys.readouterr().out == "[red]a\\x1b[31m\\nb\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_console_goes_on_without_a_reader(monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="ascii") as broken:
        with monkeypatch.context() as patch:
            patch.setattr(sys, stream, broken)
            console = TerminalConsole(stderr=stream == "stderr")
            for _ in range(3):
                console.print("a line …")
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), writing)  # for what is in its buffer


ROOT = Path(__file__).parents[3]
TERMINAL = ("testbed/common/console.py", "testbed/common/terminal/plain_text.py")
LOGS = (
    "testbed/wire/codec.py",
    "testbed/processes/templates/child.py",
    "aggregator/process/output_files.py",
    "aggregator/process/checkpoint.py",
)
"""They print to the log of a process."""


def test_only_the_terminal_modules_print() -> None:
    """Otherwise a name of a foreign trace could control the terminal, or a reader that goes away end a run."""
    for path in (path for room in ("testbed", "aggregator", "devices") for path in (ROOT / room).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        calls = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "Console" not in calls or file in TERMINAL, f"{file}: use TerminalConsole"
        assert "print" not in calls or file in (*TERMINAL, *LOGS), f"{file}: use plain_text"
