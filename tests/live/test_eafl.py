"""EAFL with real processes: devices as cluster heads, and what happens when one dies or is suspended."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.strategies.eafl.clustering import cluster, heads
from testbed.history import trace
from testbed.wire.ticket_ranges import range_of
from tests.live.quotas import need_quotas
from tests.live.runs import Outcome, Run, check_verified, complete_and_verify, started, write_profile

pytestmark = pytest.mark.live


def profile(
    folder: Path,
    *,
    clusters: int,
    devices: int = 4,
    strategy: dict[str, Any] | None = None,
    fleet: list[dict[str, Any]] | None = None,
    **changes: Any,
) -> Path:
    strategy = {"name": "eafl", "clusters": clusters, "every": 5, "phi": 0.6, "patience": 60.0} | (strategy or {})
    settings = {
        "strategy": strategy,
        "task": {"name": "digits", "split": {"name": "label-groups", "groups": clusters}},
        "training": {"steps": 4, "batch": 16, "lr": 0.1},
        "presence": {"heartbeat": 0.25, "timeout": 2.0},
        "devices": fleet or [{"profile": "rpi4", "link": "wifi", "count": devices}],
    }
    return write_profile(folder, **settings | changes)


def check_accounts(outcome: Outcome) -> None:
    """No ticket ends twice or without a dispatch, and the certificate confirms it."""
    summary, counted = outcome.summary, outcome.recount()
    assert {fate: summary[fate] for fate in counted} == counted
    verdicts = {each["name"]: each["verdict"] for each in outcome.json("fidelity.json")["invariants"]}
    assert verdicts["conservation"] == "PASS"


def live_head(run: Run) -> trace.Grouped:
    events = trace.read(run.folder / "trace.jsonl")
    return [event for event in events if isinstance(event, trace.Grouped)][-1]


def test_devices_with_the_same_labels_are_clustered_and_only_heads_send_updates_to_the_aggregator(
    tmp_path: Path,
) -> None:
    outcome = complete_and_verify(profile(tmp_path, devices=20, clusters=4, stop={"versions": 8}))
    assert (outcome.code, outcome.stderr) == (0, "")
    found = outcome.of_kind(trace.Clustered)
    assert found[0].purity is not None
    assert found[0].purity >= 0.9
    assert len(found[0].clusters) == 4
    made = outcome.of_kind(trace.Aggregated)
    assert [len(event.tickets) for event in made] == [4] * 8
    # an update of each device and clustering, and one of each cluster and iteration
    rows = {row["device"]: int(row["to_aggregator"]) for row in outcome.csv("devices.csv")}
    assert sum(rows.values()) == 20 * len(found) + 4 * len(made)
    ranges = {event.ticket_range for event in outcome.of_kind(trace.Grouped)}
    to_heads = [event for event in outcome.of_kind(trace.Arrived) if range_of(event.ticket) in ranges]
    assert len(to_heads) >= 8 * 4 * 3  # ⌈0.6·5⌉ for each result
    merged = [ticket for event in outcome.of_kind(trace.Merged) for ticket in event.tickets]
    assert len(set(merged)) == len(merged) >= 8 * 4 * 3
    # job numbers continue from one giver of tickets to the next: no device has the same one twice
    for row in rows:
        jobs = [event.job for event in outcome.of_kind(trace.Uploaded) if event.device == row and not event.attempt]
        assert len(set(jobs)) == len(jobs)
    check_accounts(outcome)


def test_at_a_later_clustering_devices_send_what_they_have_and_no_job_is_cut_off(tmp_path: Path) -> None:
    strategy = {"every": 3, "phi": 0.3}
    outcome = complete_and_verify(profile(tmp_path, devices=8, clusters=2, strategy=strategy, stop={"versions": 13}))
    assert (outcome.code, outcome.stderr) == (0, "")
    clusterings = outcome.of_kind(trace.Clustered)
    assert len(clusterings) >= 4
    dispatched = {event.ticket: event for event in outcome.of_kind(trace.Dispatched)}
    asked = {ticket for ticket, event in dispatched.items() if event.gradient}
    gradients = [event for event in outcome.of_kind(trace.Arrived) if event.ticket in asked]
    assert len(gradients) >= 8 * 3
    assert len({event.staleness for event in gradients}) > 1  # their bases differ
    sent = [event for event in outcome.of_kind(trace.Uploaded) if event.ticket in asked]
    assert {event.bytes for event in sent} == {event.bytes for event in gradients}
    assert not [event for event in outcome.of_kind(trace.Downloaded) if event.ticket in asked]
    # jobs that were begun before a clustering are merged after it, by other heads
    first = {event.ticket_range: event.t for event in outcome.of_kind(trace.Grouped)}
    carried = [
        (event, ticket)
        for event in outcome.of_kind(trace.Merged)
        for ticket in event.tickets
        if any(first[range_of(ticket)] < each.t < event.t for each in clusterings)
    ]
    assert carried
    assert outcome.summary["superseded"] == 0
    check_accounts(outcome)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_with_poison_compressed_results_and_several_clusterings_is_verified(fresh: bool, tmp_path: Path) -> None:
    lossy = {"profile": "rpi4", "link": "wifi", "count": 6, "drop": 0.15, "suspend": 0.3, "suspend_max": 0.3}
    outcome = complete_and_verify(
        profile(
            tmp_path,
            fleet=[lossy, {"profile": "phone-low", "name": "phone", "link": "5g", "count": 2, "on_drop": "give_up"}],
            clusters=2,
            strategy={"every": 3, "phi": 0.3, "fresh": fresh},
            events=[{"at": 1.0, "device": "phone", "do": "poison", "how": "sign-flip", "value": 2.0}],
            compress_updates="topk:0.1",
            stop={"versions": 13},
        )
    )
    assert (outcome.code, outcome.stderr) == (0, "")
    assert len(outcome.of_kind(trace.Clustered)) >= 4
    assert outcome.of_kind(trace.Poisoned)
    assert bool(outcome.of_kind(trace.Paused)) is not fresh


def test_killing_a_head_does_not_end_the_run_and_its_tickets_are_lost(tmp_path: Path) -> None:
    path = profile(tmp_path, devices=8, clusters=2, strategy={"every": 1000}, stop={"versions": 25})
    with started(path) as run:
        run.wait_until_traced("merged", 4)
        killed = live_head(run)
        os.kill(run.members()[killed.head].pid, signal.SIGKILL)
        outcome = run.finish()
    assert outcome.code == 0
    check_verified(outcome)
    assert f"{killed.head} (pid " in outcome.stderr
    [left] = outcome.of_kind(trace.Left)
    assert left.device == killed.head
    grouped = [event for event in outcome.of_kind(trace.Grouped) if event.ticket_range > killed.ticket_range]
    assert grouped[0].t == left.t  # at the moment when it was noticed
    assert grouped[0].head in killed.members
    assert killed.head not in grouped[0].members
    after = [event for event in outcome.of_kind(trace.Merged) if event.device == grouped[0].head]
    assert len(after) >= 5
    assert outcome.summary["stopped"] == "version 25 is reached"
    gone = [event for event in outcome.of_kind(trace.Lost) if event.reason == "its head has gone"]
    assert {range_of(event.ticket) for event in gone} == {killed.ticket_range}
    check_accounts(outcome)


def test_a_suspended_head_is_replaced_after_the_patience_although_it_sends_heartbeats(tmp_path: Path) -> None:
    random, names = np.random.default_rng([1, 3]), [f"rpi4-{number}" for number in range(1, 5)]
    one_cluster = cluster({name: np.zeros(1, np.float32) for name in names}, 1, random)
    [head] = heads(one_cluster, random)  # with one cluster, the head is random
    patience, suspended_at = 1.5, 1.0
    outcome = complete_and_verify(
        profile(
            tmp_path,
            devices=4,
            clusters=1,
            strategy={"every": 1000, "patience": patience},
            stop={"seconds": 6.0},
            events=[{"at": suspended_at, "device": head, "do": "suspend", "seconds": 3.0}],
        )
    )
    assert (outcome.code, outcome.stderr) == (0, "")
    assert not outcome.of_kind(trace.Left)
    first, second, *_ = outcome.of_kind(trace.Grouped)
    assert (first.head, set(second.members)) == (head, set(names))
    assert second.head != head
    sent = [event for event in outcome.of_kind(trace.Dispatched) if event.for_cluster and event.device == head]
    assert second.t - sent[-1].t >= patience - 1e-6
    made = [event.t for event in outcome.of_kind(trace.Aggregated)]
    assert not [moment for moment in made if suspended_at + 1.0 < moment < second.t]
    assert len([moment for moment in made if moment > second.t]) >= 5
    # it returns as a member
    back = [event for event in outcome.of_kind(trace.Arrived) if event.device == head and event.t > suspended_at + 3.0]
    assert back
    assert all(range_of(event.ticket) >= second.ticket_range for event in back)
    check_accounts(outcome)


@pytest.mark.parametrize(("patience", "timeout"), [(60.0, 2.0), (2.0, 60.0)], ids=["timeout", "patience"])
def test_a_stopped_head_is_replaced_and_returns_as_a_member(patience: float, timeout: float, tmp_path: Path) -> None:
    """Stopped by SIGSTOP, it neither aggregates nor sends heartbeats. The shorter time decides when it is replaced."""
    path = profile(
        tmp_path,
        devices=8,
        clusters=2,
        strategy={"every": 1000, "patience": patience},
        presence={"heartbeat": 0.25, "timeout": timeout},
    )
    with started(path) as run:
        run.wait_until_traced("merged", 4)
        old = live_head(run)
        process = run.members()[old.head]
        process.suspend()
        run.wait_until_traced("grouped", 3)
        process.resume()
        run.wait_for(lambda: works_for_another(run, old), "its work for the new head")
        run.process.send_signal(signal.SIGINT)
        outcome = run.finish()
    assert (outcome.code, outcome.stderr) == (130, "")
    check_verified(outcome)
    new = next(event for event in outcome.of_kind(trace.Grouped) if event.cluster == old.cluster and event != old)
    assert new.head in set(old.members) - {old.head}
    left = [(event.device, event.t) for event in outcome.of_kind(trace.Left)]
    assert left == ([(old.head, new.t)] if timeout < patience else [])  # at the moment when it was noticed
    if patience < timeout:
        sent = [e.t for e in outcome.of_kind(trace.Dispatched) if e.for_cluster and e.device == old.head]
        assert new.t - sent[-1] >= patience - 1e-6
    else:
        known = [event.t for event in outcome.of_kind(trace.Trained) if event.device == old.head and event.t < new.t]
        assert new.t - known[-1] > 0.9 * timeout  # (the end of a job is known a little earlier)
    # the other members continue with the new head, and only the tickets of the old one are lost
    after = [event for event in outcome.of_kind(trace.Arrived) if range_of(event.ticket) == new.ticket_range]
    assert {event.device for event in after} >= set(old.members) - {old.head}
    assert outcome.of_kind(trace.Merged)[-1].t > new.t
    lost = {event.ticket: event.device for event in outcome.of_kind(trace.Lost)}
    assert {range_of(ticket) for ticket, device in lost.items() if device != old.head} == {old.ticket_range}
    merged = [ticket for event in outcome.of_kind(trace.Merged) for ticket in event.tickets]
    assert len(set(merged)) == len(merged)
    assert not lost.keys() & set(merged)
    check_accounts(outcome)


def works_for_another(run: Run, old: trace.Grouped) -> bool:
    """Whether the former head sends updates to its successor."""
    events = [event for event in trace.read(run.folder / "trace.jsonl") if isinstance(event, trace.Arrived)]
    return any(event.device == old.head and range_of(event.ticket) > old.ticket_range for event in events)


@pytest.mark.parametrize("throttle", ["signal", "cgroup"])
def test_heads_and_members_may_have_quotas(throttle: str, tmp_path: Path) -> None:
    if throttle == "cgroup":
        need_quotas()
    slowed = {"name": "d", "profile": {"throttle": throttle, "of_host": 0.1}, "link": "wifi", "count": 4}
    outcome = complete_and_verify(profile(tmp_path, fleet=[slowed], clusters=2, stop={"versions": 12}))
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.summary["stopped"] == "version 12 is reached"
    own = [event for event in outcome.of_kind(trace.Merged) if len(event.tickets) > 1]
    assert {event.device for event in own} <= {event.head for event in outcome.of_kind(trace.Grouped)}
    assert all(event.checks == 0 for event in outcome.of_kind(trace.Trained))  # their steps were not paced
    check_accounts(outcome)


def test_heads_that_are_suspended_by_signal_continue_and_the_accounts_balance(tmp_path: Path) -> None:
    sleepy = {"suspend": 0.5, "suspend_max": 1.0, "suspend_by": "signal"}
    fleet = [{"profile": "rpi4", "link": "wifi", "count": 4, **sleepy}]
    outcome = complete_and_verify(
        profile(tmp_path, fleet=fleet, clusters=2, stop={"versions": 12}, presence={"heartbeat": 0.25, "timeout": 60.0})
    )
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.summary["stopped"] == "version 12 is reached"
    heads_of = {event.head for event in outcome.of_kind(trace.Grouped)}
    assert heads_of & {event.device for event in outcome.of_kind(trace.Suspended)}
    assert not outcome.of_kind(trace.Left)
    check_accounts(outcome)


def test_members_reach_their_head_with_any_transport_to_the_aggregator(tmp_path: Path) -> None:
    outcome = complete_and_verify(profile(tmp_path, clusters=2, stop={"versions": 8}, transport={"kind": "tcp"}))
    assert (outcome.code, outcome.stderr) == (0, "")
    assert [len(event.tickets) for event in outcome.of_kind(trace.Aggregated)] == [2] * 8
    assert outcome.of_kind(trace.Merged)
    check_accounts(outcome)


@pytest.mark.parametrize("without", ["gdc", "saa", "dsa"])
def test_each_part_of_the_strategy_can_be_left_out(without: str, tmp_path: Path) -> None:
    outcome = complete_and_verify(
        profile(tmp_path, clusters=2, strategy={without: False, "every": 4, "phi": 1.0}, stop={"versions": 10})
    )
    assert (outcome.code, outcome.stderr) == (0, "")
    clusterings, versions = outcome.of_kind(trace.Clustered), outcome.of_kind(trace.Aggregated)
    assert (len(clusterings) == 1) == (without == "gdc")
    assert {len(event.tickets) for event in versions} == ({1} if without == "dsa" else {2})
    if without == "saa":
        merged = outcome.of_kind(trace.Merged)
        assert all(event.weights == pytest.approx([1 / len(event.weights)] * len(event.weights)) for event in merged)
    check_accounts(outcome)
