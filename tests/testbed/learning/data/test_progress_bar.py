from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from testbed.learning.data.progress_bar import ProgressBar


def console(terminal: bool = True) -> tuple[Console, io.StringIO]:
    screen = io.StringIO()
    return Console(file=screen, force_terminal=terminal, width=120, color_system=None), screen


def test_a_quick_step_is_not_shown() -> None:
    on, screen = console()
    with ProgressBar(on, patience=60) as progress:
        progress.start("reading a file")
        progress.start("downloading a file", 20_000, 50_000)
    assert "reading" not in screen.getvalue()
    assert "downloading" not in screen.getvalue()


@pytest.mark.parametrize(("total", "amount"), [(50_000_000, "20.0 of 50.0 MB"), (None, "20.0 MB")])
def test_a_slow_step_is_shown(total: int | None, amount: str) -> None:
    on, screen = console()
    shown = threading.Event()
    with ProgressBar(on, patience=0.01) as progress:
        progress.start("reading a file", 3, 7)
        progress.start("downloading a file", 20_000_000, total)
        for _ in range(200):
            if "downloading a file" in screen.getvalue():
                break
            shown.wait(0.05)
    assert "downloading a file" in screen.getvalue()
    assert amount in screen.getvalue()


def test_a_message_is_shown_at_once_and_unchanged() -> None:
    on, screen = console()
    with ProgressBar(on, patience=60) as progress:
        progress.show("arrays [of mnist] are damaged")
        assert "arrays [of mnist] are damaged\n" in screen.getvalue()


def test_there_is_no_bar_without_a_terminal() -> None:
    on, screen = console(terminal=False)
    with ProgressBar(on, patience=0.0) as progress:
        progress.start("reading a file")
        progress.show("something")
    assert screen.getvalue() == "something\n"
