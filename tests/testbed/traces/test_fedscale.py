"""FedScale's tables of clients."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.traces.formats.found_trace import FoundTrace
from tests.testbed.traces.files import found, problem, write

CAPACITY: dict[int, Any] = {
    432: {"computation": 162.0, "communication": 5648.5},
    7: {"computation": np.float64(20.0), "communication": np.float64(1000.0)},
}
BEHAVIOUR: dict[int, Any] = {
    3: {"duration": 100, "active": [10, 50], "inactive": [20, 90], "finish_time": 100, "model": "phone"},
    5: {"duration": 0, "active": [0, 60, 70], "inactive": [30, 70], "finish_time": 80, "model": "phone"},
}


def as_json(table: dict[int, Any]) -> str:
    return json.dumps({str(client): value for client, value in table.items()})


def check_capacity(entries: dict[str, FoundTrace]) -> None:
    assert list(entries) == ["432", "7"]
    one = entries["432"]
    assert one.name == "client-432"
    assert one.device == {"seconds_per_sample": pytest.approx(3 * 0.162)}
    assert one.link == {"down": {"mbit": pytest.approx(5.6485)}, "up": {"mbit": pytest.approx(5.6485)}}
    assert entries["7"].link["up"] == {"mbit": 1.0}


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_capacity_is_read_from_a_pickle_with_numpy_scalars(tmp_path: Path, protocol: int) -> None:
    check_capacity(found("fedscale-capacity", write(tmp_path / "x", pickle.dumps(CAPACITY, protocol))))


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_capacity_is_read_from_json(tmp_path: Path, name: str) -> None:
    check_capacity(found("fedscale-capacity", write(tmp_path / name, as_json(CAPACITY))))


@pytest.mark.parametrize("contents", [pickle.dumps(BEHAVIOUR), as_json(BEHAVIOUR)])
def test_behaviour_is_read_as_availability(tmp_path: Path, contents: str | bytes) -> None:
    entries = found("fedscale-behaviour", write(tmp_path / "x", contents))
    three, five = (entries[client].availability for client in ("3", "5"))
    assert three is not None
    assert five is not None
    assert list(three.pieces) == [(0, 0), (10, 1), (20, 0), (50, 1), (90, 0)]
    assert three.period == 100
    # available until the end of the recording; adjacent spans are merged
    assert list(five.pieces) == [(0, 1), (30, 0), (60, 1)]
    assert five.period == 80


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("fedscale-capacity", {"computation": 5.0}, "has no 'communication' (it has: computation)"),
        ("fedscale-capacity", {"computation": 0.0, "communication": 1.0}, "computation is 0.0"),
        ("fedscale-capacity", {"computation": 5, "communication": True}, "communication is True"),
        ("fedscale-capacity", {"computation": 5, "communication": "fast"}, "communication is 'fast'"),
        ("fedscale-capacity", [5, 6], "is [5, 6]; it must be a table"),
        ("fedscale-behaviour", {"active": [5, 1], "inactive": [2, 3], "finish_time": 9}, "active[1] is 1, after 5"),
        ("fedscale-behaviour", {"active": [1, 3], "inactive": [], "finish_time": 9}, "2 times in active and 0"),
        ("fedscale-behaviour", {"active": [], "inactive": [], "finish_time": 9}, "never available"),
        ("fedscale-behaviour", {"active": 5, "inactive": [], "finish_time": 9}, "active is 5; it must be a list"),
        ("fedscale-behaviour", {"active": [1], "inactive": [2], "finish_time": 0}, "finish_time is 0"),
    ],
)
def test_a_wrong_client_is_refused_with_its_name(tmp_path: Path, kind: str, value: Any, expected: str) -> None:
    path = write(tmp_path / "x.json", {"11": value})
    message = problem(kind, path)
    assert message.startswith(f"{path}, '11': ")
    assert expected in message


def test_a_pickle_of_other_content_is_refused(tmp_path: Path) -> None:
    assert "contains a list" in problem("fedscale-capacity", write(tmp_path / "x", pickle.dumps([1, 2])))


@pytest.mark.parametrize("bare", [False, True])
def test_a_number_that_is_too_long_to_show_is_refused(tmp_path: Path, bare: bool) -> None:
    long = 10**5000
    value = long if bare else {"computation": long, "communication": 1.0}
    message = problem("fedscale-capacity", write(tmp_path / "x", pickle.dumps({1: value})))
    assert "is a number or table too large to be shown" in message
