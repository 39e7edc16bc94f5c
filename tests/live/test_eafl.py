"""EAFL with real processes: cluster heads that are devices, and what happens when one dies or hangs."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.clustering import cluster, heads
from testbed import trace
from testbed.messages import book_of
from tests.live.runs import Outcome, Run, complete, started, write_profile

pytestmark = pytest.mark.live


def profile(folder: Path, *, devices: int, clusters: int, rule: dict[str, Any] | None = None, **changes: Any) -> Path:
    strategy = {"name": "eafl", "clusters": clusters, "every": 5, "phi": 0.6, "patience": 60.0} | (rule or {})
    settings = {
        "strategy": strategy, "task": {"name": "digits", "split": {"name": "label-groups", "groups": clusters}},
        "training": {"steps": 4, "batch": 16, "lr": 0.1}, "presence": {"beat": 0.25, "timeout": 2.0},
        "devices": [{"profile": "rpi4", "link": "wifi", "count": devices}],
    }  # fmt: skip
    return write_profile(folder, **settings | changes)


def check_books(outcome: Outcome) -> None:
    """No ticket ends twice, none without a beginning, and the certificate says so, too."""
    summary, counted = outcome.summary, outcome.recount()
    assert {fate: summary[fate] for fate in counted} == counted
    held = {each["name"]: each["verdict"] for each in outcome.json("fidelity.json")["invariants"]}
    assert held["conservation"] == "PASS"


def live_head(run: Run) -> trace.Grouped:
    events = trace.read(run.folder / "trace.jsonl")
    return [event for event in events if isinstance(event, trace.Grouped)][-1]


def test_devices_with_the_same_labels_are_found_and_only_heads_talk_to_the_aggregator(tmp_path: Path) -> None:
    outcome = complete(profile(tmp_path, devices=20, clusters=4, stop={"versions": 8}))
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
    books = {event.book for event in outcome.of_kind(trace.Grouped)}
    to_heads = [event for event in outcome.of_kind(trace.Arrived) if book_of(event.ticket) in books]
    assert len(to_heads) >= 8 * 4 * 3  # ⌈0.6·5⌉ for each result
    merged = [ticket for event in outcome.of_kind(trace.Merged) for ticket in event.tickets]
    assert len(set(merged)) == len(merged) >= 8 * 4 * 3
    # jobs are numbered on, whoever gives them out: no device does the same one twice
    for row in rows:
        jobs = [event.job for event in outcome.of_kind(trace.Uploaded) if event.device == row and not event.attempt]
        assert len(set(jobs)) == len(jobs)
    check_books(outcome)


def test_killing_a_head_does_not_end_the_run_and_what_it_held_is_counted(tmp_path: Path) -> None:
    path = profile(tmp_path, devices=8, clusters=2, rule={"every": 1000}, stop={"versions": 25})
    with started(path) as run:
        run.wait_until_traced("merged", 4)
        killed = live_head(run)
        os.kill(run.members()[killed.head].pid, signal.SIGKILL)
        outcome = run.finish()
    assert outcome.code == 0
    assert f"{killed.head} (pid " in outcome.stderr
    [left] = outcome.of_kind(trace.Left)
    assert left.device == killed.head
    grouped = [event for event in outcome.of_kind(trace.Grouped) if event.book > killed.book]
    assert grouped[0].t == left.t  # at once, when it was noticed
    assert grouped[0].head in killed.members
    assert killed.head not in grouped[0].members
    after = [event for event in outcome.of_kind(trace.Merged) if event.device == grouped[0].head]
    assert len(after) >= 5
    assert outcome.summary["stopped"] == "version 25 is reached"
    gone = [event for event in outcome.of_kind(trace.Lost) if event.reason == "its head has gone"]
    assert {book_of(event.ticket) for event in gone} == {killed.book}
    check_books(outcome)


def test_a_head_that_hangs_is_replaced_after_its_patience_although_its_heart_beats(tmp_path: Path) -> None:
    random, names = np.random.default_rng([1, 3]), [f"rpi4-{number}" for number in range(1, 5)]
    everyone = cluster({name: np.zeros(1, np.float32) for name in names}, 1, random)
    [head] = heads(everyone, random)  # with one cluster, chance is all that it hangs on
    patience, hangs_at = 1.5, 1.0
    outcome = complete(
        profile(
            tmp_path, devices=4, clusters=1, rule={"every": 1000, "patience": patience}, stop={"seconds": 6.0},
            events=[{"at": hangs_at, "device": head, "do": "suspend", "seconds": 3.0}],
        )
    )  # fmt: skip
    assert (outcome.code, outcome.stderr) == (0, "")
    assert not outcome.of_kind(trace.Left)
    first, second, *_ = outcome.of_kind(trace.Grouped)
    assert (first.head, set(second.members)) == (head, set(names))
    assert second.head != head
    sent = [event for event in outcome.of_kind(trace.Dispatched) if event.lead and event.device == head]
    assert second.t - sent[-1].t == pytest.approx(patience, abs=0.25)
    made = [event.t for event in outcome.of_kind(trace.Aggregated)]
    assert not [moment for moment in made if hangs_at + 1.0 < moment < second.t]
    assert len([moment for moment in made if moment > second.t]) >= 5
    # it is a member again when it is back
    back = [event for event in outcome.of_kind(trace.Arrived) if event.device == head and event.t > hangs_at + 3.0]
    assert back
    assert all(book_of(event.ticket) >= second.book for event in back)
    check_books(outcome)
