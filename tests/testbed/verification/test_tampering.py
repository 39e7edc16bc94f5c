"""Every change to a run folder is found: in the trace, in the profile, in the scores and in the models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from safetensors.numpy import load_file, save_file

from testbed.history import trace
from testbed.verification.verification_result import Departure
from testbed.verification.verifying import verify
from tests.testbed.runs.folders import write_trace
from tests.testbed.verification.one_process import OneProcess

Events = list[trace.Event]
LOSSY: dict[str, Any] = {
    "name": "d",
    "profile": {"seconds_per_sample": 0.01},
    "link": {"up": {"delay": 0.05, "drop": 0.2}, "down": {"delay": 0.03, "drop": 0.3}},
    "on_drop": "give_up",
    "count": 4,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = OneProcess(tmp_path_factory.mktemp("original"), strategy={"name": "fedbuff", "k": 2}, devices=[LOSSY])
    made.run(until=4.0)
    made.kill("d-2")
    made.run(until=5.0)
    made.join("d-2")
    made.run(until=6.0)
    return made.finish()


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "copy"))


def found(folder: Path) -> Departure:
    result = verify(folder)
    assert result.verdict == "departs"
    assert result.departure is not None
    return result.departure


def change(folder: Path, edit: Callable[[Events], object]) -> None:
    path = folder / "trace.jsonl"
    events = list(trace.read(path))
    edit(events)
    path.unlink()
    write_trace(path, events)


def places(events: Events, kind: type[trace.Event]) -> list[int]:
    return [place for place, event in enumerate(events) if isinstance(event, kind)]


def changed(kind: type[trace.Event], number: int = 2, **fields: object) -> Callable[[Events], object]:
    """An edit that changes fields of an event: the one with this number among its kind, from 0."""

    def edit(events: Events) -> None:
        place = places(events, kind)[number]
        events[place] = replace(events[place], **fields)

    return edit


def test_the_original_is_verified(original: Path) -> None:
    assert verify(original).verdict == "verified"


def test_two_exchanged_arrivals_are_found(folder: Path) -> None:
    def exchange(events: Events) -> None:
        one, other = places(events, trace.Arrived)[3:5]
        events[one], events[other] = events[other], events[one]

    change(folder, exchange)
    assert found(folder).event in ("arrived", "aggregated", "dispatched")


def test_an_arrival_behind_the_next_one_is_found_even_if_the_sum_of_both_is_the_same(tmp_path: Path) -> None:
    """The first two of a round: x + y and y + x have the same bits, but times run backwards."""
    fleet = [
        {"name": name, "profile": {"seconds_per_sample": seconds}, "link": {}}
        for name, seconds in (("a", 0.01), ("b", 0.02), ("c", 0.03))
    ]
    made = OneProcess(tmp_path, strategy="fedavg", devices=fleet)
    made.run(until=2.0)
    folder = made.finish()

    def move(events: Events) -> None:
        one, other = places(events, trace.Arrived)[:2]
        events.insert(other, events.pop(one))

    change(folder, move)
    departure = found(folder)
    assert (departure.event, departure.device) == ("arrived", "a-1")
    assert departure.expected.startswith("a moment from ")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (trace.Arrived, {"staleness": 9}),
        (trace.Arrived, {"loss": 0.125}),
        (trace.Arrived, {"version": 9}),
        (trace.Arrived, {"ticket": 3}),
        (trace.Arrived, {"bytes": 1}),
        (trace.Aggregated, {"weights": [0.5, 0.25]}),
        (trace.Aggregated, {"staleness": [7, 7]}),
        (trace.Aggregated, {"version": 99}),
        (trace.Dispatched, {"version": 7}),
        (trace.Dispatched, {"steps": 3}),
        (trace.Dispatched, {"device": "d-4", "t": 0.5}),
        (trace.Trained, {"steps": 1}),
        (trace.Lost, {"ticket": 1}),
        (trace.Resent, {"ticket": 1}),
        (trace.Joined, {"samples": 5}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_a_changed_value_is_found_in_its_line(folder: Path, kind: type[trace.Event], fields: dict[str, object]) -> None:
    events = list(trace.read(folder / "trace.jsonl"))
    place = places(events, kind)[2]
    change(folder, changed(kind, **fields))
    departure = found(folder)
    assert departure.line is not None
    # a changed input is noticed where its effects are recorded; a changed effect at once
    assert place + 1 <= departure.line or kind is trace.Trained


def test_a_changed_staleness_is_named(folder: Path) -> None:
    events = list(trace.read(folder / "trace.jsonl"))
    place = places(events, trace.Arrived)[4]
    arrived = events[place]
    assert isinstance(arrived, trace.Arrived)
    change(folder, changed(trace.Arrived, 4, staleness=arrived.staleness + 1))
    departure = found(folder)
    assert (departure.line, departure.event, departure.ticket) == (place + 1, "arrived", arrived.ticket)
    assert departure.expected == f"staleness {arrived.staleness}"
    assert departure.found == str(arrived.staleness + 1)
    assert f"line {place + 1}, arrived of ticket {arrived.ticket} ({arrived.device}): expected" in str(departure)


KINDS = (
    trace.Joined,
    trace.Dispatched,
    trace.Trained,
    trace.Arrived,
    trace.Aggregated,
    trace.Resent,
    trace.Lost,
    trace.Left,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_removed_event_is_found(folder: Path, kind: type[trace.Event]) -> None:
    def remove(events: Events) -> None:
        kept = places(events, kind)
        if kind is trace.Trained:  # of a job whose update counted
            counted = {event.ticket for event in events if isinstance(event, trace.Arrived)}
            kept = [place for place in kept if events[place].ticket in counted]  # type: ignore[attr-defined]
        del events[kept[len(kept) // 2]]

    change(folder, remove)
    assert found(folder).line is not None


def test_a_repeated_event_is_found(folder: Path) -> None:
    def repeat(events: Events) -> None:
        place = places(events, trace.Aggregated)[1]
        events.insert(place, events[place])

    change(folder, repeat)
    assert found(folder).event == "aggregated"


def test_a_removed_score_is_found_in_the_summary(folder: Path) -> None:
    change(folder, lambda events: events.pop(places(events, trace.Scored)[0]))
    assert found(folder).event == "summary.json"


def test_a_changed_score_is_found(folder: Path) -> None:
    change(folder, changed(trace.Scored, 0, metrics={"accuracy": 0.99, "loss": 0.01}))
    assert found(folder).event == "scored"


@pytest.mark.parametrize(
    ("old", "new"), [("seed = 3", "seed = 4"), ("lr = 0.1\n", "lr = 0.2\n"), ("steps = 2", "steps = 3")]
)
def test_a_changed_profile_is_found(folder: Path, old: str, new: str) -> None:
    path = folder / "profile.toml"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    departure = found(folder)
    assert departure.line is not None
    assert departure.event in ("header", "dispatched", "arrived")


@pytest.mark.parametrize("bit", [0, 31])
def test_a_flipped_bit_of_the_final_model_is_found(folder: Path, bit: int) -> None:
    path = folder / "checkpoints" / "final.safetensors"
    tensors = load_file(path)
    name = min(tensors)
    flipped = bytearray(tensors[name].tobytes())
    flipped[bit // 8] ^= 1 << bit % 8
    tensors[name] = type(tensors[name])(tensors[name].shape, tensors[name].dtype, bytes(flipped))
    save_file(tensors, path)
    assert found(folder).event == "checkpoints/final.safetensors"


def test_a_damaged_final_model_is_found(folder: Path) -> None:
    (folder / "checkpoints" / "final.safetensors").write_bytes(b"nothing")
    assert found(folder).event == "checkpoints/final.safetensors"


def test_a_changed_hash_of_the_final_model_is_found(folder: Path) -> None:
    change(folder, changed(trace.Stopped, 0, model="0" * 64))
    assert found(folder).event == "stopped"


@pytest.mark.parametrize(
    ("name", "value"), [("versions", 1), ("model_sha256", "0" * 64), ("final_accuracy", 0.99), ("bytes_up", 7)]
)
def test_a_changed_summary_is_found(folder: Path, name: str, value: object) -> None:
    path = folder / "summary.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    table[name] = value
    path.write_text(json.dumps(table), encoding="utf-8")
    departure = found(folder)
    assert (departure.line, departure.event) == (None, "summary.json")


@pytest.mark.parametrize("name", ["metrics.csv", "versions.csv", "devices.csv"])
def test_a_changed_table_is_found(folder: Path, name: str) -> None:
    path = folder / name
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(rows[:-1]), encoding="utf-8")
    departure = found(folder)
    assert departure.event == f"{name}, row {len(rows) - 1}"
    assert departure.found == "None"


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which a device poisons its updates, and all devices compress theirs."""
    event = {"at": 0.5, "device": "d-1", "do": "poison", "how": "sign-flip", "value": 2.0, "seconds": 2.0}
    made = OneProcess(tmp_path_factory.mktemp("poisoned"), compress_updates="int8", events=[event])
    made.run(until=4.0)
    assert places(made.events, trace.Poisoned)
    return made.finish()


@pytest.mark.parametrize(
    "edit",
    [
        changed(trace.Poisoned, 0, factor=3.0),
        changed(trace.Poisoned, 0, how="noise"),
        changed(trace.Poisoned, 0, ticket=1),
        lambda events: events.pop(places(events, trace.Poisoned)[0]),
    ],
    ids=["factor", "how", "ticket", "removed"],
)
def test_a_changed_poison_is_found(poisoned: Path, edit: Callable[[Events], object], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(poisoned, tmp_path / "copy"))
    assert verify(folder).verdict == "verified"
    change(folder, edit)
    assert found(folder).line is not None


@pytest.mark.parametrize(
    ("old", "new"), [('"int8"', '"float16"'), ('"sign-flip"', '"scaled"'), ('compress_updates = "int8"', "")]
)
def test_a_changed_way_to_poison_or_compress_is_found(poisoned: Path, old: str, new: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(poisoned, tmp_path / "copy"))
    path = folder / "profile.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert found(folder).line is not None
