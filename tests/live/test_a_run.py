"""One ordinary run, checked while it is going on and afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from safetensors.numpy import load_file

from testbed.history import trace
from testbed.loading.profile_loader import load
from tests.live.leftovers import named_shared_memory, nothing_left_over
from tests.live.runs import Outcome, complete, started, write_profile

pytestmark = pytest.mark.live

DEVICES = ["rpi4-1", "rpi4-2", "phone-1", "phone-2"]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the kernel reported about a process during the run."""

    pid: int
    cores: list[int]
    threads: int
    nice: int
    shared_memory: list[str]


@dataclass(frozen=True, kw_only=True)
class Ordinary:
    seen: dict[str, Observed]
    outcome: Outcome


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ordinary]:
    groups: list[dict[str, Any]] = [
        {"profile": "rpi4", "link": "wifi", "count": 2, "drop": 0.2, "suspend": 0.3, "suspend_max": 0.3},
        {"profile": "phone-low", "name": "phone", "link": "5g", "count": 2, "drop": 0.2, "on_drop": "give_up"},
    ]
    profile = write_profile(tmp_path_factory.mktemp("ordinary"), devices=groups, stop={"versions": 60})
    with nothing_left_over():
        with started(profile, own_templates=True) as run:
            run.wait_until_traced("arrived", 3)
            seen = {}
            for name, process in run.members().items():
                with process.oneshot():
                    seen[name] = Observed(
                        pid=process.pid,
                        cores=process.cpu_affinity() or [],
                        threads=process.num_threads(),
                        nice=process.nice(),
                        shared_memory=named_shared_memory(process),
                    )
            outcome = run.finish()
        yield Ordinary(seen=seen, outcome=outcome)


def test_every_member_of_a_run_is_a_process(ordinary: Ordinary) -> None:
    canaries = [f"canary@{core}" for core in set(ordinary.outcome.json("meta.json")["core_plan"]["devices"])]
    assert sorted(ordinary.seen) == sorted(["launcher", "template", "aggregator", "evaluator", *canaries, *DEVICES])
    pids = {name: seen.pid for name, seen in ordinary.seen.items() if name != "template"}
    assert len(set(pids.values())) == 7 + len(canaries)
    assert ordinary.outcome.json("meta.json")["pids"] == pids
    assert {event.device: event.pid for event in ordinary.outcome.of_kind(trace.Joined)} == {
        name: pids[name] for name in DEVICES
    }


def test_every_process_is_pinned_as_the_core_plan_says(ordinary: Ordinary) -> None:
    plan = ordinary.outcome.json("meta.json")["core_plan"]
    planned = dict(zip(DEVICES, plan["devices"], strict=True))
    planned |= {name: plan[name] for name in ("aggregator", "evaluator")}
    assert {name: ordinary.seen[name].cores for name in planned} == {name: [core] for name, core in planned.items()}
    for name, seen in ordinary.seen.items():
        if name.startswith("canary@"):
            assert f"canary@{seen.cores[0]}" == name
    assert {row["device"]: int(row["core"]) for row in ordinary.outcome.csv("devices.csv")} == {
        name: planned[name] for name in DEVICES
    }


def test_the_aggregator_has_the_highest_priority(ordinary: Ordinary) -> None:
    nice = {name: seen.nice for name, seen in ordinary.seen.items()}
    assert nice["aggregator"] < min(nice[name] for name in DEVICES) <= max(nice[name] for name in DEVICES)
    assert max(nice[name] for name in DEVICES) < nice["evaluator"]


def test_every_process_computes_with_one_thread(ordinary: Ordinary) -> None:
    assert ordinary.seen["template"].threads == 1
    # ZeroMQ adds a reaper and an I/O thread
    assert max(seen.threads for name, seen in ordinary.seen.items() if name not in ("launcher", "template")) <= 3


def test_no_process_has_shared_memory_with_a_name_that_could_be_left_over(ordinary: Ordinary) -> None:
    assert {name: seen.shared_memory for name, seen in ordinary.seen.items() if seen.shared_memory} == {}


def test_a_run_ends_with_exit_code_0_and_prints_its_results(ordinary: Ordinary) -> None:
    outcome = ordinary.outcome
    assert (outcome.code, outcome.stderr) == (0, "")
    assert "core plan: aggregator" in outcome.stdout
    assert "demand: core " in outcome.stdout
    assert f"results in {outcome.folder}" in outcome.stdout
    assert f"fidelity: {outcome.summary['fidelity']['verdict']} (" in outcome.stdout
    assert outcome.summary["stopped"] == "version 60 is reached"


def test_the_run_folder_is_complete(ordinary: Ordinary) -> None:
    folder = ordinary.outcome.folder
    assert {path.name for path in folder.iterdir()} == {
        "profile.toml",
        "meta.json",
        "trace.jsonl",
        "metrics.csv",
        "versions.csv",
        "devices.csv",
        "summary.json",
        "fidelity.json",
        "checkpoints",
        "logs",
    }
    assert os.listdir(folder / "logs") == []  # no process logged a problem
    meta, summary = ordinary.outcome.json("meta.json"), ordinary.outcome.summary
    assert {
        "host",
        "packages",
        "python",
        "edgebed",
        "seed",
        "core_plan",
        "pids",
        "dilation",
        "demand",
        "calibration",
    } <= meta.keys()
    assert {
        "strategy",
        "seed",
        "devices",
        "seconds",
        "versions",
        "dispatched",
        "applied",
        "rejected",
        "lost",
        "superseded",
        "in_flight",
        "final_accuracy",
        "best_accuracy",
        "mean_staleness",
        "max_staleness",
        "updates_per_second",
        "dilation",
        "host_seconds",
        "computing",
        "fidelity",
    } <= summary.keys()
    assert (summary["strategy"], summary["seed"], summary["devices"]) == ("fedasync", 1, 4)
    rows = ordinary.outcome.csv("devices.csv")
    assert {
        "device",
        "jobs",
        "applied",
        "rejected",
        "lost",
        "bytes_up",
        "bytes_down",
        "busy_s",
        "idle_s",
        "suspended_s",
        "missed",
        "host_cpu_s",
        "host_waited_s",
        "mean_staleness",
    } <= rows[0].keys()
    assert [row["device"] for row in rows] == DEVICES


def test_the_certificate_is_in_its_own_file_and_in_the_summary(ordinary: Ordinary) -> None:
    certificate = ordinary.outcome.json("fidelity.json")
    assert ordinary.outcome.summary["fidelity"] == certificate
    assert certificate["verdict"] in ("PASS", "WARN", "FAIL")  # the host may be busy
    verdicts = {line["name"]: line["verdict"] for line in certificate["invariants"]}
    assert len(verdicts) == 10
    # these do not depend on the load of the host
    assert {verdicts[name] for name in ("loss", "causality", "conservation")} == {"PASS"}
    assert verdicts["step time"] != "not measured"


def test_the_trace_has_the_load_of_the_aggregator_and_the_demand_on_the_host(ordinary: Ordinary) -> None:
    [header] = ordinary.outcome.of_kind(trace.Header)
    assert header.demand == pytest.approx(max(ordinary.outcome.json("meta.json")["demand"].values()))
    assert header.dilation == ordinary.outcome.summary["dilation"]
    loads = ordinary.outcome.of_kind(trace.Load)
    assert sum(load.served for load in loads) >= len(ordinary.outcome.of_kind(trace.Arrived))
    assert sum(load.span for load in loads) >= ordinary.outcome.summary["host_seconds"] - 0.1


def test_no_update_is_handled_before_it_is_due(ordinary: Ordinary) -> None:
    arrived = ordinary.outcome.of_kind(trace.Arrived)
    assert min(event.t - event.due for event in arrived) >= 0
    assert {event.bytes for event in arrived} == {event.bytes for event in ordinary.outcome.of_kind(trace.Uploaded)}


def test_every_ticket_is_accounted_for(ordinary: Ordinary) -> None:
    summary, count = ordinary.outcome.summary, ordinary.outcome.recount()
    assert {name: summary[name] for name in count} == count
    assert count["dispatched"] == sum(count.values()) - count["dispatched"]
    assert summary["versions"] == len(ordinary.outcome.of_kind(trace.Aggregated)) == 60
    [stopped] = ordinary.outcome.of_kind(trace.Stopped)
    assert stopped.in_flight == summary["in_flight"]
    rows = ordinary.outcome.csv("devices.csv")
    assert sum(int(row["jobs"]) for row in rows) == summary["dispatched"]
    assert sum(int(row["applied"]) for row in rows) == summary["applied"]


def test_no_update_is_applied_that_was_not_trained_and_uploaded(ordinary: Ordinary) -> None:
    applied = {ticket for event in ordinary.outcome.of_kind(trace.Aggregated) for ticket in event.tickets}
    trained = {event.ticket for event in ordinary.outcome.of_kind(trace.Trained)}
    uploaded = {event.ticket for event in ordinary.outcome.of_kind(trace.Uploaded) if not event.dropped}
    assert applied
    assert applied <= trained & uploaded


def test_metrics_have_the_version_and_the_moment_when_it_was_made(ordinary: Ordinary) -> None:
    made = {event.version: event.t for event in ordinary.outcome.of_kind(trace.Aggregated)} | {0: 0.0}
    rows = ordinary.outcome.csv("metrics.csv")
    assert list(rows[0]) == ["time_s", "host_s", "version", "joules", "bytes", "accuracy", "loss"]
    assert len(rows) >= 2
    assert int(rows[-1]["version"]) == 60
    for row in rows:
        assert float(row["time_s"]) == pytest.approx(made[int(row["version"])], abs=1e-4)
        assert 0 <= float(row["accuracy"]) <= 1
        assert float(row["loss"]) > 0
    assert ordinary.outcome.summary["final_accuracy"] == float(rows[-1]["accuracy"])


def test_versions_have_the_moment_and_the_updates_that_they_were_made_from(ordinary: Ordinary) -> None:
    made = ordinary.outcome.of_kind(trace.Aggregated)
    rows = ordinary.outcome.csv("versions.csv")
    assert [(int(row["version"]), int(row["updates"])) for row in rows] == [(each.version, 1) for each in made]
    assert sum(float(row["latency_s"]) for row in rows) == pytest.approx(made[-1].t, abs=0.01)
    assert [int(row["max_staleness"]) for row in rows] == [each.staleness[0] for each in made]


def test_the_joules_of_a_run_are_those_of_its_devices_and_of_its_phases(ordinary: Ordinary) -> None:
    summary, rows = ordinary.outcome.summary, ordinary.outcome.csv("devices.csv")
    energy, scored = summary["energy"], ordinary.outcome.csv("metrics.csv")
    assert summary["energy_j"] == energy["total_j"] > 0
    assert sum(energy["by_phase_j"].values()) == pytest.approx(energy["total_j"], abs=0.01)
    assert sum(float(row["energy_j"]) for row in rows) == pytest.approx(energy["total_j"], abs=0.01)
    assert sum(float(row["wasted_j"]) for row in rows) == pytest.approx(energy["wasted_j"], abs=0.01)
    assert 0 < energy["by_phase_j"]["transmit"] < energy["by_phase_j"]["compute"]
    spent = [float(row["joules"]) for row in scored]
    assert spent == sorted(spent)
    # version 60 ended the run
    assert spent[-1] == pytest.approx(energy["total_j"], rel=0.02)
    assert int(scored[-1]["bytes"]) <= summary["bytes_up"] + summary["bytes_down"]
    assert "\nenergy (proxy): " in ordinary.outcome.stdout
    assert sum(float(row["contribution"]) for row in rows) == pytest.approx(1.0, abs=0.001)


def test_the_energy_of_the_host_is_in_the_summary_if_it_was_measured(ordinary: Ordinary) -> None:
    measured = ordinary.outcome.summary["host_energy"]
    assert measured is None or all(joules >= 0 for joules in measured["joules"].values())
    assert ("host: " in ordinary.outcome.stdout) == (measured is not None)


def test_the_final_checkpoint_has_the_tensors_of_the_model(ordinary: Ordinary) -> None:
    tensors = load_file(ordinary.outcome.folder / "checkpoints" / "final.safetensors")
    sizes = {event.bytes for event in ordinary.outcome.of_kind(trace.Downloaded)}
    assert {4 * sum(tensor.size for tensor in tensors.values())} == sizes
    assert all(tensor.dtype == "float32" for tensor in tensors.values())
    assert {name.rpartition(".")[2] for name in tensors} == {"weight", "bias"}


def test_a_stored_profile_can_be_run_again(ordinary: Ordinary) -> None:
    stored = ordinary.outcome.folder / "profile.toml"
    outcome = complete(stored, "--set", "stop.versions=2", "--quiet")
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.stdout == f"{outcome.folder}\n"  # --quiet prints the folder and nothing else
    again = load(outcome.folder / "profile.toml")
    assert again.devices == load(stored).devices
    assert outcome.summary["versions"] == 2
