"""Runs that are recomputed from their folders: whatever happened in them, everything is equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from testbed.common.errors import NotARun, UserError
from testbed.history import trace
from testbed.runs.stored_run import StoredRun
from testbed.verification import run_parts
from testbed.verification.verifying import verify
from tests.testbed.runs.folders import write_trace
from tests.testbed.verification.one_process import OneProcess

LOSSY: dict[str, Any] = {
    "name": "d",
    "profile": {"seconds_per_sample": 0.01},
    "link": {"up": {"delay": 0.05, "drop": 0.2}, "down": {"delay": 0.03, "drop": 0.3}},
    "count": 4,
}
CELL = {"radius": 500, "bandwidth": 1e6, "power": 10, "noise": 1e-12, "gain": -30}
UNEQUAL = [
    {"name": "slow", "profile": {"seconds_per_sample": 0.016}, "link": {"down": {"delay": 0.02}}, "count": 2},
    {"name": "fast", "profile": {"seconds_per_sample": 0.004}, "link": {"down": {"delay": 0.02}}, "count": 2},
]
POISON = [
    {"at": 1.0, "device": "d-1", "do": "poison", "how": "sign-flip", "value": 2.0, "seconds": 1.0},
    {"at": 3.0, "device": "d", "do": "poison", "how": "noise", "value": 1.5, "seconds": 1.5},
]
ASAFL = {"name": "asafl", "rounds": 30, "budget": 20.0, "mu": 0.3}

RUNS: dict[str, dict[str, Any]] = {
    "each update makes a version": {"strategy": "fedasync"},
    "K updates make a version": {"strategy": {"name": "safl-sc", "k": 2, "tau_0": 1}, "devices": UNEQUAL},
    "rounds with a deadline": {"strategy": {"name": "fedavg", "deadline": 0.4}, "devices": UNEQUAL},
    "ticks, lost downloads and old models": {
        "strategy": {"name": "psurdg", "interval": 0.4},
        "devices": [LOSSY | {"on_lost_download": "old_base"}],
    },
    "lost downloads that are sent again": {"devices": [LOSSY]},
    "uploads that are given up": {"devices": [LOSSY | {"on_drop": "give_up"}]},
    "suspensions": {"devices": [LOSSY | {"suspend": 0.5, "suspend_max": 0.5}]},
    "a bound on updates": {"aggregator": {"clip": 0.05}},
    "updates that exceed a bound": {"aggregator": {"clip": 0.12, "on_clip": "refuse"}},
    "a learning rate that falls": {"training": {"steps": 3, "batch": 8, "lr": 0.1, "lr_decay": 0.9, "momentum": 0.5}},
    "wakes at the moment of an update": {"strategy": {"name": "gsgm"}},
    "grants in a radio cell": {"strategy": ASAFL, "cell": CELL, "devices": UNEQUAL},
    "gradients kept on devices": {"strategy": ASAFL | {"memory": "light"}, "cell": CELL, "devices": UNEQUAL},
    "rounds that wait for all devices": {
        "strategy": ASAFL | {"control": "synchronous", "degree": 4},
        "cell": CELL,
        "devices": UNEQUAL,
    },
    "staleness in seconds": {"strategy": {"name": "fedasync", "tau_unit": "seconds"}, "devices": UNEQUAL},
    "poisoned updates": {"devices": [LOSSY], "events": POISON},
    "poisoned updates that exceed a bound": {"events": POISON, "aggregator": {"clip": 0.2, "on_clip": "refuse"}},
    "updates in float16": {"compress_updates": "float16"},
    "updates in int8 that get lost": {"compress_updates": "int8", "devices": [LOSSY | {"on_drop": "give_up"}]},
    "the largest numbers of updates": {"compress_updates": "topk:0.05", "strategy": {"name": "fedbuff", "k": 2}},
    "poisoned and compressed updates": {"compress_updates": "topk:0.05", "events": POISON},
    "estimates from heartbeats": {"strategy": ASAFL | {"estimate": "beats"}, "cell": CELL, "devices": UNEQUAL},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_recomputed_bit_by_bit(name: str, tmp_path: Path) -> None:
    made = OneProcess(tmp_path, **RUNS[name])
    made.run(until=5.0)
    result = verify(made.finish())
    assert result.departure is None
    assert (result.verdict, result.largest_difference, result.notes) == ("verified", 0.0, [])
    assert result.versions >= 3
    assert result.events == len(made.events)
    assert result.updates >= sum(isinstance(event, trace.Arrived) for event in made.events) > 5


def test_the_runs_above_have_what_their_names_say(tmp_path: Path) -> None:
    """Otherwise the test above would prove little."""

    def kinds(name: str) -> set[str]:
        place = tmp_path / name.replace(" ", "-")
        place.mkdir()
        made = OneProcess(place, **RUNS[name])
        made.run(until=5.0)
        found = {type(event).__name__ for event in made.events}
        old = {event.ticket: event.version for event in made.events if isinstance(event, trace.Dispatched)}
        arrived = [event for event in made.events if isinstance(event, trace.Arrived)]
        return found | {"OldBase" for event in arrived if event.version != old[event.ticket]}

    assert {"OldBase", "Aggregated"} <= kinds("ticks, lost downloads and old models")
    assert "Resent" in kinds("lost downloads that are sent again")
    assert "Lost" in kinds("uploads that are given up")
    assert "Suspended" in kinds("suspensions")
    assert "Superseded" in kinds("K updates make a version")
    assert {"Rejected", "Arrived"} <= kinds("updates that exceed a bound")
    assert {"Planned", "Granted"} <= kinds("grants in a radio cell")
    assert "Progressed" in kinds("estimates from heartbeats")
    assert {"Poisoned", "Arrived"} <= kinds("poisoned updates")
    assert {"Poisoned", "Rejected"} <= kinds("poisoned updates that exceed a bound")
    assert {"Poisoned", "Arrived"} <= kinds("poisoned and compressed updates")
    assert "Lost" in kinds("updates in int8 that get lost")


@pytest.mark.parametrize("strategy", ["fedasync", {"name": "audg", "interval": 0.4}, {"name": "fedavg"}])
def test_a_run_with_a_death_a_rejoin_and_a_resumption_is_recomputed(strategy: Any, tmp_path: Path) -> None:
    made = OneProcess(tmp_path, strategy=strategy, devices=[LOSSY])
    made.run(until=1.3)
    made.kill("d-2")
    made.run(until=2.1)
    made.join("d-2")
    made.run(until=2.9)
    made.interrupt_and_resume()
    made.run(until=4.5)
    result = verify(made.finish())
    assert result.departure is None
    assert result.verdict == "verified"


def test_a_packed_trace_is_recomputed_too(tmp_path: Path) -> None:
    from testbed.history import packing

    made = OneProcess(tmp_path)
    made.run(until=1.0)
    folder = made.finish()
    packing.pack(folder / "trace.jsonl")
    assert verify(folder).verdict == "verified"


def test_on_another_processor_small_differences_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = OneProcess(tmp_path)
    made.run(until=1.0)
    folder = made.finish()
    monkeypatch.setattr(run_parts.kernel, "processor", lambda: "another one")
    assert verify(folder).verdict == "verified"  # the bits happen to be equal
    path = folder / "checkpoints" / "final.safetensors"
    tensors = load_file(path)
    tensors[min(tensors)] = tensors[min(tensors)] + np.float32(1e-4)
    save_file(tensors, path)
    result = verify(folder)
    assert (result.verdict, result.departure) == ("close", None)
    assert result.largest_difference == pytest.approx(1e-4, rel=1e-2)
    assert "another one" in result.notes[0]
    tensors[min(tensors)] = tensors[min(tensors)] + np.float32(0.25)
    save_file(tensors, path)
    assert verify(folder).verdict == "departs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = OneProcess(tmp_path)
    made.run(until=0.7)
    return made.finish()


def test_a_folder_that_is_not_that_of_a_run_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(NotARun):
        verify(tmp_path)


@pytest.mark.parametrize("name", ["profile.toml", "meta.json"])
def test_a_run_without_this_file_cannot_be_verified(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"has no .*{name}; "):
        verify(folder)


def test_a_run_that_was_killed_cannot_be_verified(folder: Path) -> None:
    events = list(StoredRun.open(folder).events())
    (folder / "trace.jsonl").unlink()
    write_trace(folder / "trace.jsonl", events[:-1])
    with pytest.raises(UserError, match=r"its trace has no end: .*; resume it, or run it again"):
        verify(folder)


def test_a_bare_trace_cannot_be_verified(folder: Path) -> None:
    bare = (folder / "trace.jsonl").rename(folder.parent / "bare.jsonl")
    with pytest.raises(UserError, match="name the folder of the run"):
        verify(bare)


def test_a_run_whose_code_is_missing_cannot_be_verified(folder: Path) -> None:
    path = folder / "profile.toml"
    text = path.read_text(encoding="utf-8")
    assert '"fedasync"' in text
    path.write_text(text.replace('"fedasync"', '"absent_module:Mine"'), encoding="utf-8")
    with pytest.raises(UserError, match="absent_module"):
        verify(folder)


def test_a_run_of_an_earlier_version_without_reports_of_heads_cannot_be_verified(folder: Path) -> None:
    events = list(StoredRun.open(folder).events())
    (folder / "trace.jsonl").unlink()
    grouped = trace.Grouped(t=0.0, cluster=0, ticket_range=1, head="d-1", members=["d-1"], quorum=1)
    write_trace(folder / "trace.jsonl", [*events[:-1], grouped, events[-1]])
    with pytest.raises(UserError, match="without when cluster heads received their models"):
        verify(folder)
