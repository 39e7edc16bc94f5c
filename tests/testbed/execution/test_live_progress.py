"""The live view of a run."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from rich.console import Console

from aggregator.engine.tickets import Tally
from aggregator.process.status import DeviceStatus, Status
from testbed.common.clock import ManualClock
from testbed.execution import live_progress


def console(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=100, height=20, force_terminal=terminal), text


STATUS = Status(
    t=4.0,
    dilation=1.0,
    origin=100.0,
    version=6,
    scored=5,
    problem="",
    problems=0,
    last_problem="",
    metrics={"accuracy": 0.8125, "loss": 0.5},
    tally=Tally(dispatched=9, applied=6, rejected=2, lost=1),
    devices={"rpi4-1": DeviceStatus("training", 4, 3, 0.4)},
)


def table_lines(devices: dict[str, DeviceStatus], rows: int) -> list[list[str]]:
    screen, text = console()
    screen.print(live_progress.fleet_table(replace(STATUS, devices=devices), rows))
    return [line.split() for line in text.getvalue().splitlines()]


def test_the_headline_has_time_version_scores_and_counts() -> None:
    expected = "  4.0 s  version 6  accuracy 0.812  loss 0.500  1.5 upd/s  rejected 2  lost 1"
    assert live_progress.headline(STATUS) == expected


def test_the_headline_of_a_dilated_run_has_the_seconds_of_this_host_too() -> None:
    line = live_progress.headline(replace(STATUS, dilation=2.5))
    assert line.startswith("  4.0 s (10 s here)  version 6")
    assert "1.5 upd/s" in line  # per emulated second


def test_the_headline_of_a_run_that_just_began_has_no_score_and_no_rate() -> None:
    line = live_progress.headline(replace(STATUS, t=0.0, metrics={}))
    assert "not scored yet" in line
    assert "0.0 upd/s" in line


def test_the_fleet_is_shown_with_state_version_staleness_and_drops() -> None:
    devices = {"rpi4-1": DeviceStatus("training", 4, 3, 0.4), "rpi5-1": DeviceStatus("idle", None, 0, None)}
    assert table_lines(devices, rows=4) == [
        ["device", "state", "version", "staleness", "drops"],
        ["rpi4-1", "training", "40%", "4", "2", "3"],
        ["rpi5-1", "idle", "0"],
    ]


@pytest.mark.parametrize(("count", "shown", "tail"), [(4, 4, None), (5, 3, "2"), (100, 3, "97")])
def test_devices_that_do_not_fit_are_counted(count: int, shown: int, tail: str | None) -> None:
    _, *lines = table_lines({f"d-{i}": DeviceStatus("idle", 6, 0, None) for i in range(count)}, rows=4)
    assert [line[0] for line in lines[:shown]] == [f"d-{i}" for i in range(shown)]
    assert lines[shown:] == ([] if tail is None else [["…", "and", tail, "more"]])


def test_a_state_that_is_not_known_here_is_shown_as_it_is() -> None:
    assert table_lines({"d-1": DeviceStatus("[bold]odd", 6, 0, None)}, rows=4)[1][1] == "[bold]odd"


def test_a_quiet_view_shows_only_warnings() -> None:
    (screen, text), (errors, complaints) = console(), console()
    view = live_progress.view(screen, errors, quiet=True)
    view.starting(1, 8)
    view.status(STATUS)
    view.stopping()
    view.note("[bold] died")
    view.close()
    assert text.getvalue() == ""
    assert complaints.getvalue() == "warning: [bold] died\n"


def test_lines_come_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    monkeypatch.setattr("testbed.execution.live_progress.time", SimpleNamespace(monotonic=clock.now))
    screen, text = console()
    view = live_progress.view(screen, screen, quiet=False)
    for ready in (1, 2, 3):
        view.starting(ready, 3)
    for moment in (0.0, 1.0, 4.9, 5.0, 5.1):
        clock.advance_to(moment)
        view.status(replace(STATUS, t=moment))
    view.stopping()
    view.close()
    first, *lines, last = text.getvalue().splitlines()
    assert (first[:10], last[:9]) == ("warming up", "stopping:")
    assert lines[:2] == ["started 1 of 3 devices", "started 3 of 3 devices"]
    assert [line[:7] for line in lines[2:]] == ["  0.0 s", "  5.0 s"]


def test_a_terminal_shows_the_table_and_the_headline() -> None:
    screen, text = console(terminal=True)
    view = live_progress.view(screen, screen, quiet=False)
    view.starting(1, 8)
    view.status(STATUS)
    view.stopping()
    view.close()
    shown = text.getvalue()
    assert "stopping: the results are kept" in shown
    assert "starting devices: 1 of 8" in shown
    assert "rpi4-1" in shown
    assert "version 6" in shown


# ---- progress


def shown_progress(
    moments: tuple[float, ...], monkeypatch: pytest.MonkeyPatch, *, terminal: bool, quiet: bool = False
) -> str:
    """Return what is shown if a tenth more is done at each of these moments."""
    clock = ManualClock()
    monkeypatch.setattr("testbed.execution.live_progress.time", SimpleNamespace(monotonic=clock.now))
    screen, text = console(terminal=terminal)
    with live_progress.progress(screen, "packing [bold]", quiet=quiet) as show:
        for number, moment in enumerate(moments, 1):
            clock.advance_to(moment)
            show(number / 10)
    return text.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    assert shown_progress((0.5, 1.0, 1.9), monkeypatch, terminal=terminal) == ""
    assert shown_progress((0.5, 10.0, 20.0), monkeypatch, terminal=terminal, quiet=True) == ""


def test_longer_work_shows_a_line_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown_progress((1.0, 2.0, 3.0, 6.9, 7.0, 7.1), monkeypatch, terminal=False)
    assert text == "packing [bold]: 20%\npacking [bold]: 50%\n"


def test_on_a_terminal_progress_is_shown_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown_progress((1.0, 2.0, 3.0), monkeypatch, terminal=True)
    assert "10%" not in text
    assert all(f"packing [bold]: {share}" in text for share in ("20%", "30%"))
    assert text.endswith("\x1b[2K")  # and removed again
