"""What only some strategies do, with real processes."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from testbed.history import trace
from tests.live.runs import ROOT, Outcome, complete_and_verify, write_profile

pytestmark = pytest.mark.live

TICKS = {"name": "audg", "interval": 0.4}
ONE_STEP = {"steps": 1, "batch": 32, "lr": 0.2}


def test_safl_sc_stops_a_device_during_training_and_restarts_it_with_the_new_model(tmp_path: Path) -> None:
    slow = {"name": "slow", "profile": {"seconds_per_sample": 0.05}, "link": "wifi"}  # a job takes 6.4 s
    profile = write_profile(
        tmp_path,
        strategy={"name": "safl-sc", "k": 2, "tau_0": 2},
        devices=[{"profile": "rpi4", "link": "wifi", "count": 2}, slow],
        stop={"versions": 12},
    )
    outcome = complete_and_verify(profile)
    assert outcome.code == 0
    base = {event.ticket: event.version for event in outcome.of_kind(trace.Dispatched)}
    restarted = [event for event in outcome.of_kind(trace.Superseded) if event.device == "slow-1"]
    assert len(restarted) >= 2
    abandoned = {event.ticket: event for event in outcome.of_kind(trace.Abandoned) if event.device == "slow-1"}
    seconds = 0.0
    for one, next_one in itertools.pairwise(restarted):
        assert base[next_one.ticket] - base[one.ticket] == 3  # τ_0 + 1
        work = abandoned[one.ticket]
        assert 0 < work.seconds < 6.4
        assert work.t >= one.t  # it stops when it has received the new model
        seconds += work.seconds
    [row] = [row for row in outcome.csv("devices.csv") if row["device"] == "slow-1"]
    assert float(row["abandoned_s"]) >= seconds - 0.001
    assert "discarded for a newer model" in outcome.stdout


@pytest.mark.parametrize("strategy", ["audg", "psurdg"])
def test_uploads_are_tried_once_per_interval_and_all_devices_receive_the_final_model(
    strategy: str, tmp_path: Path
) -> None:
    group = {"profile": "rpi4", "link": "wifi", "count": 4, "phi": 0.5, "drop": 0.4}
    outcome = complete_and_verify(
        write_profile(
            tmp_path, strategy=TICKS | {"name": strategy}, training=ONE_STEP, devices=[group], stop={"seconds": 6}
        )
    )
    assert outcome.code == 0
    versions = outcome.of_kind(trace.Aggregated)
    assert [round(event.t, 6) for event in versions] == [round(0.4 * (i + 1), 6) for i in range(15)]
    attempts: dict[tuple[str, int], list[int]] = defaultdict(list)
    for event in outcome.of_kind(trace.Uploaded):
        attempts[event.device, event.ticket].append(int(event.sent / 0.4 + 1e-6))
    assert any(len(intervals) > 1 for intervals in attempts.values())
    assert all(len(set(intervals)) == len(intervals) for intervals in attempts.values())

    final = {event.ticket: event for event in outcome.of_kind(trace.Dispatched) if event.steps == 0}
    assert {event.version for event in final.values()} == {15}
    assert {event.ticket for event in outcome.of_kind(trace.Delivered)} == final.keys()
    arrived = [event for event in outcome.of_kind(trace.Downloaded) if event.ticket in final]
    assert sum(not event.dropped for event in arrived) == 4
    assert any(event.dropped for event in arrived)  # with this seed one is lost, and sent again
    assert outcome.summary["final_model"]["on"] == outcome.summary["final_model"]["of"] == 4
    counted = outcome.recount()
    assert {end: outcome.summary[end] for end in counted} == counted


def test_a_device_whose_download_is_lost_continues_with_its_old_base(tmp_path: Path) -> None:
    group = {"profile": "rpi4", "link": "wifi", "count": 3, "phi": 0.9, "drop": 0.4, "on_lost_download": "old_base"}
    outcome = complete_and_verify(
        write_profile(tmp_path, strategy=TICKS, training=ONE_STEP, devices=[group], stop={"seconds": 8})
    )
    assert outcome.code == 0
    sent = {event.ticket: event.version for event in outcome.of_kind(trace.Dispatched)}
    lost = {event.ticket for event in outcome.of_kind(trace.Downloaded) if event.dropped}
    old = [event for event in outcome.of_kind(trace.Arrived) if event.version < sent[event.ticket]]
    assert old
    assert {event.ticket for event in old} <= lost
    rejected = {event.ticket for event in outcome.of_kind(trace.Rejected)}
    assert not rejected
    used = {ticket for event in outcome.of_kind(trace.Aggregated) for ticket in event.tickets}
    # all but those of the last interval, which did not end
    assert {event.ticket for event in old if event.t < 7.6} <= used


def test_theory_compares_two_runs(tmp_path: Path) -> None:
    runs = []
    for strategy in ("audg", "psurdg"):
        folder = tmp_path / strategy
        folder.mkdir()
        group = {"profile": "rpi4", "link": "wifi", "count": 4, "phi": 0.5}
        profile = write_profile(
            folder, strategy=TICKS | {"name": strategy}, training=ONE_STEP, devices=[group], stop={"seconds": 6}
        )
        runs.append(complete_and_verify(profile))
    constants = ["--L", "1", "--mu", "0.1", "--R", "5", "--G", "2", "--phi", "0.5"]
    output = _theory(runs, *constants, "--format", "json")
    table: dict[str, Any] = json.loads(output)
    losses = {run.summary["strategy"]: run.csv("metrics.csv")[-1]["loss"] for run in runs}
    measured = min(losses, key=lambda strategy: float(losses[strategy]))
    assert table["measured"]["winner"] == measured
    assert table["predicted"]["winner"] in losses
    text = _theory(runs, *constants)
    assert "predicted" in text
    assert "measured" in text


def _theory(runs: list[Outcome], *options: str) -> str:
    command = [sys.executable, str(ROOT / "run_testbed.py"), "theory", *(str(run.folder) for run in runs), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_afl_and_sync_fl_record_their_rounds(tmp_path: Path) -> None:
    for strategy in ("afl", "sync-fl"):
        folder = tmp_path / strategy
        folder.mkdir()
        groups = [
            {"profile": "rpi4", "link": "wifi", "count": 2},
            {"profile": "jetson-nano", "link": "wifi", "count": 2},
        ]
        profile = write_profile(
            folder, strategy={"name": strategy, "fraction": 0.5}, devices=groups, stop={"versions": 12}
        )
        outcome = complete_and_verify(profile)
        rounds = outcome.of_kind(trace.Round)
        rows = outcome.csv("rounds.csv")
        assert len(rows) == len(rounds) == (6 if strategy == "afl" else 12)
        cumulative = energy = 0.0
        watts = {event.device: event.watts.compute for event in outcome.of_kind(trace.Joined) if event.watts}
        for event, row in zip(rounds, rows, strict=True):
            assert len(event.seconds) == 2
            cumulative += max(event.seconds) - min(event.seconds)
            energy += sum(watts[device] * s for device, s in zip(event.devices, event.seconds, strict=True))
            assert float(row["cumulative_delay_s"]) == pytest.approx(cumulative, abs=1e-3)
            assert float(row["energy_proxy_j"]) == pytest.approx(energy, abs=1e-2)
        assert outcome.summary["rounds"]["count"] == len(rows)
        assert outcome.summary["energy_j"] > energy  # of the whole fleet, idle devices included
