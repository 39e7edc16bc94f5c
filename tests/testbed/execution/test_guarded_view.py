"""A view that fails does not fail the run."""

from __future__ import annotations

import pytest
from rich.console import Console

from testbed.execution.guarded_view import GuardedView
from testbed.execution.live_progress import Quiet
from tests.testbed.execution.test_live_progress import STATUS


class RecordedView(Quiet):
    """Notes what it is asked to show, and fails in one of its methods."""

    def __init__(self, failing: str = "") -> None:
        super().__init__(Console(quiet=True))
        self.failing, self.seen = failing, list[str]()

    def _see(self, what: str) -> None:
        self.seen.append(what)
        if what == self.failing:
            raise RuntimeError(f"no {what}")

    def starting(self, ready: int, total: int) -> None:
        self._see("starting")

    def status(self, status: object) -> None:
        self._see("status")

    def stopping(self) -> None:
        self._see("stopping")

    def note(self, text: str) -> None:
        self._see("note")

    def close(self) -> None:
        self._see("close")


def show_everything(view: GuardedView) -> None:
    view.starting(1, 2)
    view.status(STATUS)
    view.note("a device has died")
    view.stopping()
    view.close()


ALL = ["starting", "status", "note", "stopping", "close"]


def test_everything_is_passed_on() -> None:
    inner = RecordedView()
    guarded = GuardedView(lambda: inner)
    show_everything(guarded)
    assert (inner.seen, guarded.failure) == (ALL, None)


@pytest.mark.parametrize("failing", ALL)
def test_a_view_that_fails_is_closed_and_its_traceback_is_kept(failing: str) -> None:
    inner = RecordedView(failing)
    guarded = GuardedView(lambda: inner)
    show_everything(guarded)
    assert inner.seen == [*ALL[: ALL.index(failing) + 1], "close"]
    assert guarded.failure is not None
    assert guarded.failure.endswith(f"RuntimeError: no {failing}\n")


def test_a_view_that_cannot_be_opened_shows_nothing() -> None:
    def fail() -> Quiet:
        raise RuntimeError("no view")

    guarded = GuardedView(fail)
    show_everything(guarded)
    assert guarded.failure is not None
