"""Two processes return what one returns, whatever happens to the second."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from testbed.report import second_process

NUMBERS = list(range(7))


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    """Other tests of this process may have started some that stay, such as the resource tracker of multiprocessing."""
    before = psutil.Process().children()
    yield
    assert psutil.Process().children() == before


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_texts_have_the_order_of_the_items(count: int) -> None:
    assert second_process.texts(lambda number: f"ä{number}" * 50_000, range(count)) == [
        f"ä{number}" * 50_000 for number in range(count)
    ]


def test_every_second_item_is_done_in_another_process() -> None:
    pids = second_process.texts(lambda _: str(os.getpid()), NUMBERS)
    assert {*pids[::2]} == {str(os.getpid())}
    assert len({*pids[1::2]} - {str(os.getpid())}) == 1


def test_one_core_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert {*second_process.texts(lambda _: str(os.getpid()), NUMBERS)} == {str(os.getpid())}


def test_what_a_killed_process_does_not_return_is_done_here() -> None:
    own = os.getpid()

    def work(number: int) -> str:
        if os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        return str(number)

    assert second_process.texts(work, NUMBERS) == [str(number) for number in NUMBERS]


def test_a_process_that_waits_for_ever_is_killed_and_its_part_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_process, "_LEAST_WAIT", 0.05)
    own = os.getpid()

    def work(number: int) -> str:
        if os.getpid() != own:
            signal.pause()  # as for a lock that a thread held when the process was forked
        return str(number)

    assert second_process.texts(work, NUMBERS) == [str(number) for number in NUMBERS]


def test_without_another_process_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    assert second_process.texts(str, NUMBERS) == [str(number) for number in NUMBERS]


@pytest.mark.parametrize("bad", [2, 3])
def test_an_error_of_either_process_is_raised_here(bad: int, capfd: pytest.CaptureFixture[str]) -> None:
    def work(number: int) -> str:
        if number == bad:
            raise ValueError(f"number {number}")
        return str(number)

    with pytest.raises(ValueError, match=f"number {bad}"):
        second_process.texts(work, NUMBERS)
    assert capfd.readouterr() == ("", "")


def test_an_interruption_ends_the_other_process() -> None:
    own = os.getpid()

    def work(_: int) -> str:
        if os.getpid() == own:
            raise KeyboardInterrupt
        signal.pause()
        return ""

    with pytest.raises(KeyboardInterrupt):
        second_process.texts(work, NUMBERS)
