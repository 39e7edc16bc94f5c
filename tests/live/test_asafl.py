"""ASAFL with real processes in an emulated cell: rounds last as planned, both memories give the same model."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from testbed.history import trace
from tests.live.leftovers import nothing_left_over
from tests.live.runs import Outcome, complete, complete_and_verify, write_profile

pytestmark = pytest.mark.live


def group(name: str, seconds_per_sample: float, **changes: Any) -> dict[str, Any]:
    """Two devices; a job takes 128 times the given seconds."""
    profile = {"seconds_per_sample": seconds_per_sample}
    return {"name": name, "profile": profile, "link": {"title": "in the cell"}, "count": 2} | changes


FLEET = [group("fast", 0.002), group("slow", 0.005)]
LOSSY = [group("fast", 0.002, drop=0.25), group("slow", 0.003, drop=0.25, distance=400)]
CELL: dict[str, Any] = {"bandwidth": 8e5}
"""Narrow: an upload takes some tenths of a second."""
STRATEGY = {"name": "asafl", "rounds": 16, "budget": 7.0, "mu": 1.0}


@dataclass(frozen=True, kw_only=True)
class Runs:
    smooth: Outcome
    replayed: Outcome
    """With another control, and the lost transfers of ``full``."""
    full: Outcome
    light: Outcome


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    def run(*options: str, devices: list[dict[str, Any]], versions: int, **strategy: Any) -> Outcome:
        folder = tmp_path_factory.mktemp("asafl")
        changes = {"strategy": STRATEGY | strategy, "devices": devices, "cell": CELL, "stop": {"versions": versions}}
        return complete_and_verify(write_profile(folder, **changes), *options)

    all_devices: dict[str, Any] = {"control": "fixed", "degree": 4}  # then no version depends on the load of the host
    with nothing_left_over():
        smooth = run(devices=FLEET, versions=16)
        full, light = (run(devices=LOSSY, versions=6, memory=memory, **all_devices) for memory in ("full", "light"))
        replay = ("--replay", str(full.folder), "--set", "replay.end=stop")
        replayed = run(*replay, devices=LOSSY, versions=6, control="fixed", degree=3)
        yield Runs(smooth=smooth, replayed=replayed, full=full, light=light)


def test_every_run_succeeds_and_accounts_for_its_tickets(runs: Runs) -> None:
    for outcome in (runs.smooth, runs.replayed, runs.full, runs.light):
        assert (outcome.code, outcome.stderr) == (0, "")
        counted = outcome.recount()
        assert {fate: outcome.summary[fate] for fate in counted} == counted
        assert (counted["rejected"], counted["lost"], outcome.summary["refused"]) == (0, 0, 0)


@pytest.mark.timing
def test_rounds_last_as_long_as_they_were_planned_to(runs: Runs) -> None:
    plans, versions = runs.smooth.of_kind(trace.Planned), runs.smooth.of_kind(trace.Aggregated)
    ratios = [(version.t - plan.t) / plan.seconds for plan, version in zip(plans, versions, strict=False)]
    assert len(ratios) == 16
    # a step that the host computes too late delays what follows: most rounds have none
    assert statistics.median(ratios) == pytest.approx(1.0, abs=0.02)


def test_the_metrics_have_degree_queue_latency_and_time_usage(runs: Runs) -> None:
    rows, plans = runs.smooth.csv("versions.csv"), runs.smooth.of_kind(trace.Planned)
    for row, plan in zip(rows, plans, strict=False):
        assert int(row["new_updates"]) == len(plan.devices)
        assert float(row["queue_s"]) == pytest.approx(plan.queue, abs=1e-4)
        assert float(row["planned_s"]) == pytest.approx(plan.seconds, abs=1e-4)
        assert float(row["time_usage"]) == pytest.approx(float(row["time_s"]) / 7.0, abs=1e-3)
    assert len(plans[0].devices) == 4  # q_0 = 0
    assert min(len(plan.devices) for plan in plans) < 4


def test_uploads_have_the_granted_rate_and_begin_after_the_grant(runs: Runs) -> None:
    for outcome in (runs.smooth, runs.replayed, runs.full, runs.light):
        granted = {event.ticket: event for event in outcome.of_kind(trace.Granted)}
        uploads = outcome.of_kind(trace.Uploaded)
        assert len(uploads) > 15
        for upload in uploads:
            assert upload.asked == pytest.approx(8 * upload.bytes / granted[upload.ticket].rate)
            assert upload.sent >= granted[upload.ticket].t - 1e-6


def test_a_device_outside_of_a_round_waits_and_the_wait_is_recorded(runs: Runs) -> None:
    uploads = [*runs.smooth.of_kind(trace.Uploaded), *runs.replayed.of_kind(trace.Uploaded)]
    waited = sum(upload.waited or 0.0 for upload in uploads)
    recorded = [float(row["waiting_s"]) for run in (runs.smooth, runs.replayed) for row in run.csv("devices.csv")]
    assert waited > 0.1
    assert sum(recorded) >= waited - 0.05


def test_both_kinds_of_memory_make_the_same_model_although_transfers_are_lost(runs: Runs) -> None:
    for outcome in (runs.full, runs.light):
        assert any(event.dropped for event in outcome.of_kind(trace.Uploaded))
        assert any(event.dropped for event in outcome.of_kind(trace.Downloaded))
        assert outcome.of_kind(trace.Stopped)[0].version == 6
    full, light = (load_file(run.folder / "checkpoints" / "final.safetensors") for run in (runs.full, runs.light))
    for name, tensor in full.items():
        np.testing.assert_allclose(light[name], tensor, atol=1e-5)


def test_a_replay_has_the_recorded_losses_and_its_own_rates(runs: Runs) -> None:
    certificate = runs.replayed.json("replay.json")
    assert certificate["losses_differ"] == 0
    assert certificate["transfers_common"] > 15
    assert certificate["delays"]["upload"] is None  # they follow from the grants of the strategy
    assert certificate["delays"]["download"]["count"] > 5


def test_a_profile_without_a_cell_is_refused_before_anything_starts(tmp_path: Path) -> None:
    outcome = complete(write_profile(tmp_path, strategy="asafl"))
    assert outcome.code != 0
    assert "cell is missing; asafl shares the band of a radio cell" in outcome.stderr
