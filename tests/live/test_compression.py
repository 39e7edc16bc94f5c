"""A run with compressed updates: it learns, its bytes are those of the compressed size, and it can be repeated."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.history import trace
from testbed.wire.compression_method import method_of
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, complete, write_profile

pytestmark = pytest.mark.live

GROUPS: list[dict[str, Any]] = [
    {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.2},
    {"profile": "rpi5", "link": "wifi", "compress_updates": "int8"},
]
KEYS: dict[str, Any] = {
    "strategy": "fedasync",
    "devices": GROUPS,
    "compress_updates": "topk:0.05",
    "stop": {"target_accuracy": 0.6, "seconds": 600.0},
}
METHODS = {"rpi4-1": "topk:0.05", "rpi4-2": "topk:0.05", "rpi5-1": "int8"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    with nothing_left_over():
        profile = write_profile(tmp_path_factory.mktemp("recorded"), **KEYS)
        yield complete(profile)


def test_a_run_with_compressed_updates_learns(recorded: Outcome) -> None:
    assert (recorded.code, recorded.stderr) == (0, "")
    assert recorded.summary["stopped"] == "accuracy 0.6 is reached"


def test_the_bytes_are_those_of_the_compressed_size(recorded: Outcome) -> None:
    parameters = recorded.of_kind(trace.Downloaded)[0].bytes // 4
    size = {device: method_of(method).nbytes(parameters) for device, method in METHODS.items()}
    assert size["rpi4-1"] < parameters
    uploads = recorded.of_kind(trace.Uploaded)
    assert {(event.device, event.bytes) for event in uploads} == set(size.items())
    assert all(event.bytes == size[event.device] for event in recorded.of_kind(trace.Arrived))
    with (recorded.folder / "devices.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    sums = {device: sum(event.bytes for event in uploads if event.device == device) for device in size}
    assert {row["device"]: int(row["bytes_up"]) for row in rows} == sums
    assert recorded.summary["bytes_up"] == sum(sums.values())
    assert {event.device: event.compress_updates for event in recorded.of_kind(trace.Joined)} == METHODS


def test_a_strict_replay_ends_with_the_same_model(recorded: Outcome, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert any(event.dropped for event in recorded.of_kind(trace.Uploaded))
    profile = write_profile(tmp_path_factory.mktemp("strict"), **KEYS)
    strict = complete(profile, "--replay", str(recorded.folder), "--replay-mode", "strict")
    assert (strict.code, strict.stderr) == (0, "")
    [one], [other] = (outcome.of_kind(trace.Stopped) for outcome in (recorded, strict))
    assert one.model == other.model != ""
