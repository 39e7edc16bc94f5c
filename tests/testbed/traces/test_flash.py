"""FLASH's speeds and states of phones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.testbed.traces.files import found, only, problem, write

SPEED = {"down_u": 1000.0, "down_sigma": 250.0, "up_u": 500.0, "up_sigma": 750.0}


@pytest.mark.parametrize(("unit", "mbit"), [("kbit/s", 1.0), ("kB/s", 8.0), ("KiB/s", 8.192), ("Mbit/s", 1000.0)])
def test_a_speed_is_read_in_the_given_unit(tmp_path: Path, unit: str, mbit: float) -> None:
    phone = only("flash-speed", write(tmp_path / "x.json", {"a-b": SPEED}), unit=unit)
    assert phone.name == "a-b"
    assert phone.link["down"] == {"mbit": pytest.approx(mbit), "spread": 0.25}
    assert phone.link["up"] == {"mbit": pytest.approx(mbit / 2), "spread": 1.0}
    assert phone.notes == (f"{phone.name}, up: σ ÷ u is 1.50; the spread of a link is at most 1",)


def test_without_a_unit_the_error_explains_why(tmp_path: Path) -> None:
    message = problem("flash-speed", write(tmp_path / "x.json", {"a": SPEED}))
    assert "--unit" in message
    assert "KiB/s" in message
    assert "divides uploads by a further 1000" in message


def test_an_unknown_unit_is_refused(tmp_path: Path) -> None:
    assert "did you mean 'kbit/s'" in problem("flash-speed", write(tmp_path / "x.json", {"a": SPEED}), unit="kbits")


@pytest.mark.parametrize("change", [{"down_u": 0}, {"up_sigma": -1}, {"up_u": "5"}])
def test_a_wrong_speed_is_refused_with_its_key(tmp_path: Path, change: dict[str, Any]) -> None:
    message = problem("flash-speed", write(tmp_path / "x.json", {"a": SPEED | change}), unit="kB/s")
    assert f"'a': {next(iter(change))} is " in message


# ---- states


def phone(*messages: str) -> dict[str, Any]:
    return {"guid": "g", "model": "m", "messages": "\n".join(f"2020-01-02 {message}" for message in messages) + "\n"}


READY = ("10:00:00\tscreen_lock", "10:00:10\tWIFI", "10:00:30\tbattery_charged_on")


def test_a_phone_is_available_while_it_is_locked_on_wifi_and_charging(tmp_path: Path) -> None:
    states = phone(*READY, "10:00:40\t57.0%", "10:00:50\tscreen_on", "10:01:00\t4g", "10:01:20\twifi", "10:02:00\t80%")
    entry = only("flash-state", write(tmp_path / "x.json", {"u": states}))
    assert entry.availability is not None
    assert list(entry.availability.pieces) == [(0, 0), (30, 1), (60, 0), (80, 1)]
    assert entry.availability.period == 120


@pytest.mark.parametrize("end", ["screen_unlock", "battery_charged_off", "unknown", "2g", "3g", "5g"])
def test_availability_ends_with_each_of_the_three_conditions(tmp_path: Path, end: str) -> None:
    entry = only("flash-state", write(tmp_path / "x.json", {"u": phone(*READY, f"10:00:45\t{end}", "10:01:00\t5%")}))
    assert entry.availability is not None
    assert list(entry.availability.pieces) == [(0, 0), (30, 1), (45, 0)]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((*READY, "09:00:00\twifi"), "message 4: has the time 2020-01-02 09:00:00, before that of the message above"),
        ((*READY, "10:05:00\tflying"), "message 4: state is 'flying'"),
        (("10:00:00 wifi",), "message 1: is '2020-01-02 10:00:00 wifi'"),
        (("25:00:00\twifi",), "message 1: is "),
        (("10:00:00\twifi", "10:05:00\t50%"), "never available"),
        ((), "has no duration"),
    ],
)
def test_a_wrong_phone_is_refused_with_its_name(tmp_path: Path, messages: tuple[str, ...], expected: str) -> None:
    path = write(tmp_path / "x.json", {"u": phone(*messages)})
    message = problem("flash-state", path)
    assert message.startswith(f"{path}, 'u'")
    assert expected in message


def test_many_phones_are_read_one_by_one(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json.gz", {f"u{i}": phone(*READY, f"10:0{i}:00\t5%") for i in range(1, 9)})
    periods = [entry.availability.period for entry in found("flash-state", path).values() if entry.availability]
    assert periods == [60.0 * i for i in range(1, 9)]
