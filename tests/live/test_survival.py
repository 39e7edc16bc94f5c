"""Unscripted faults of processes and disks: the run continues, and its accounts balance."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from testbed.history import trace
from testbed.history.events.run_events import PROCESS_ENDED, UNREACHABLE
from testbed.wire.messages import EVALUATOR
from tests.live.runs import Outcome, Run, started, write_profile

pytestmark = pytest.mark.live
DEAD = (PROCESS_ENDED, UNREACHABLE)
"""Reasons for which a device whose process has ended may leave: it may also be noticed at the next send."""

VICTIM = "rpi4-2"
PRESENCE = {"heartbeat": 0.25, "timeout": 10.0}
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def surviving(folder: Path, **presence: Any) -> Path:
    return write_profile(folder, presence=PRESENCE | presence)


def interrupted(run: Run) -> Outcome:
    run.process.send_signal(signal.SIGINT)
    outcome = run.finish()
    assert outcome.code == 130, outcome.stderr
    return outcome


def accounts_balance(outcome: Outcome) -> bool:
    summary, count = outcome.summary, outcome.recount()
    return count["applied"] >= 3 and all(summary[name] == number for name, number in count.items())


def joins(outcome: Outcome, device: str = VICTIM) -> list[trace.Joined]:
    return [event for event in outcome.of_kind(trace.Joined) if event.device == device]


def wait_for_join(run: Run, device: str, number: int, events: int = 0) -> None:
    """Wait until a device has joined ``number`` times, and ``events`` updates of it have arrived since."""

    def is_there() -> bool:
        own = [event for event in trace.read(run.folder / "trace.jsonl") if getattr(event, "device", "") == device]
        joined = [i for i, event in enumerate(own) if isinstance(event, trace.Joined)]
        if len(joined) < number:
            return False
        return sum(isinstance(event, trace.Arrived) for event in own[joined[number - 1] :]) >= events

    run.wait_for(is_there, f"join {number} of {device} with {events} updates")


# ---- devices


def test_a_killed_device_is_missed_at_once_and_continues_where_it_was_after_a_restart(tmp_path: Path) -> None:
    with started(surviving(tmp_path, restart="always")) as run:
        run.wait_until_traced("arrived", 3)
        victim = run.members()[VICTIM]
        victim.kill()
        wait_for_join(run, VICTIM, 2, events=2)
        outcome = interrupted(run)
    assert f"{VICTIM} (pid {victim.pid}) was ended by SIGKILL; restart in 1 s" in outcome.stderr
    [first, second] = joins(outcome)
    assert first.pid == victim.pid != second.pid
    [left] = outcome.of_kind(trace.Left)
    assert left.device == VICTIM
    assert left.reason in DEAD
    assert left.t < second.t
    [lost] = outcome.of_kind(trace.Lost)
    assert (lost.device, lost.t) == (VICTIM, left.t)
    own = {
        event.ticket for event in outcome.of_kind(trace.Dispatched) if event.device == VICTIM and event.t >= second.t
    }
    assert own & {ticket for event in outcome.of_kind(trace.Aggregated) for ticket in event.tickets}
    # it continues with the number after that of the lost job
    jobs = [event.job for event in outcome.of_kind(trace.Uploaded) if event.device == VICTIM and event.sent > second.t]
    before = [event for event in outcome.of_kind(trace.Dispatched) if event.device == VICTIM and event.t < second.t]
    assert jobs[0] == len(before)
    assert outcome.summary["restarts"] == 1
    assert accounts_balance(outcome)


def test_a_device_that_keeps_dying_is_given_up_and_the_others_continue(tmp_path: Path) -> None:
    with started(surviving(tmp_path, restart=1)) as run:
        run.wait_until_traced("arrived", 3)
        run.members()[VICTIM].kill()
        wait_for_join(run, VICTIM, 2)
        run.members()[VICTIM].kill()
        run.wait_until_traced("left", 2)
        arrived = len([event for event in trace.read(run.folder / "trace.jsonl") if isinstance(event, trace.Arrived)])
        run.wait_until_traced("arrived", arrived + 6)
        assert VICTIM not in run.members()
        outcome = interrupted(run)
    assert outcome.stderr.count("was ended by SIGKILL") == 2
    assert outcome.stderr.count("; restart in") == 1
    assert (len(joins(outcome)), outcome.summary["restarts"]) == (2, 1)
    assert accounts_balance(outcome)


def test_a_fleet_whose_devices_all_died_is_restarted(tmp_path: Path) -> None:
    profile = write_profile(
        tmp_path, presence=PRESENCE | {"restart": 1}, devices=[{"profile": "rpi4", "link": "wifi", "count": 2}]
    )
    with started(profile) as run:
        run.wait_until_traced("arrived", 3)
        for name, process in run.members().items():
            if name.startswith("rpi4"):
                process.kill()
        wait_for_join(run, "rpi4-1", 2, events=1)
        wait_for_join(run, "rpi4-2", 2, events=1)
        outcome = interrupted(run)
    assert outcome.summary["restarts"] == 2
    assert accounts_balance(outcome)


GREEDY_STRATEGY = """
from dataclasses import dataclass, replace
from aggregator.pacing import EveryUpdate

@dataclass(kw_only=True)
class Greedy(EveryUpdate):
    def weight(self, update, server):
        return 0.1

    def job(self, device, server):
        return server.job if server.version < 12 else replace(server.job, steps=1, batch=0)
"""
"""From version 12 on, a step uses all samples: it needs memory that a device has not allocated yet."""


def test_a_device_that_is_out_of_memory_reports_it_and_is_restarted(tmp_path: Path) -> None:
    (tmp_path / "my_strategy.py").write_text(GREEDY_STRATEGY, encoding="utf-8")
    with started(
        write_profile(tmp_path, presence=PRESENCE | {"restart": "always"}, strategy="my_strategy:Greedy")
    ) as run:
        run.wait_until_traced("arrived", 3)
        victim = run.members()[VICTIM]
        victim.rlimit(psutil.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        wait_for_join(run, VICTIM, 2, events=1)
        outcome = interrupted(run)
    assert f"{VICTIM} (pid {victim.pid}) " in outcome.stderr
    assert "emory" in outcome.stderr.partition(VICTIM)[2]
    assert "Traceback" not in outcome.stderr
    [left] = outcome.of_kind(trace.Left)
    assert left.reason in DEAD
    assert accounts_balance(outcome)


def test_a_frozen_device_is_missed_after_the_timeout_and_its_update_after_the_thaw_is_not_applied(
    tmp_path: Path,
) -> None:
    with started(surviving(tmp_path, timeout=1.0, restart="always")) as run:
        run.wait_until_traced("arrived", 3)
        victim = run.members()[VICTIM]
        victim.suspend()
        run.wait_until_traced("left")
        victim.resume()
        wait_for_join(run, VICTIM, 2, events=2)
        outcome = interrupted(run)
    first, second = joins(outcome)
    assert first.pid == second.pid == victim.pid  # a frozen device may thaw: it is not forked again
    [left] = outcome.of_kind(trace.Left)
    assert (left.device, left.reason) == (VICTIM, "it was silent for too long")
    [lost] = outcome.of_kind(trace.Lost)
    assert lost.ticket not in {ticket for event in outcome.of_kind(trace.Aggregated) for ticket in event.tickets}
    assert outcome.summary["restarts"] == 0
    assert outcome.summary["resent"] == 0  # although a Train may have waited in its queue
    [causality] = [line for line in outcome.json("fidelity.json")["invariants"] if line["name"] == "causality"]
    assert causality["figures"] == {"early": 0, "out_of_order": 0}
    assert accounts_balance(outcome)


# ---- the evaluator


def test_an_evaluator_that_is_killed_is_replaced_and_the_last_version_is_scored(tmp_path: Path) -> None:
    with started(surviving(tmp_path)) as run:
        run.wait_until_traced("scored", 2)
        victim = run.members()[EVALUATOR]
        victim.kill()
        run.wait_for(lambda: run.members().get(EVALUATOR, victim).pid != victim.pid, "another evaluator")
        scored = [event for event in trace.read(run.folder / "trace.jsonl") if isinstance(event, trace.Scored)]
        run.wait_until_traced("scored", len(scored) + 2)
        outcome = interrupted(run)
    assert f"evaluator (pid {victim.pid}) was ended by SIGKILL; restart in 1 s" in outcome.stderr
    versions = [event.version for event in outcome.of_kind(trace.Scored)]
    assert versions == sorted(set(versions))  # each once
    assert versions[-1] == outcome.summary["versions"]
    assert outcome.of_kind(trace.Left) == []
    assert accounts_balance(outcome)


# ---- the disk


def fill_disk(run: Run) -> psutil.Process:
    """Limit the size of the aggregator's files: the trace ends within a line."""
    aggregator, file = run.members()["aggregator"], run.folder / "trace.jsonl"
    size = file.stat().st_size + 100
    aggregator.rlimit(psutil.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    run.wait_for(lambda: file.stat().st_size >= size, "a file that is full")
    run.wait_for(lambda: "cannot be written: File too large" in run.status()["problem"], "its report")
    return aggregator


def test_no_event_is_lost_while_the_disk_is_full(tmp_path: Path) -> None:
    with started(surviving(tmp_path)) as run:
        run.wait_until_traced("arrived", 3)
        aggregator = fill_disk(run)
        before = run.status()["version"]
        run.wait_for(lambda: run.status()["version"] > before + 5, "more versions")
        aggregator.rlimit(psutil.RLIMIT_FSIZE, NO_LIMIT)
        run.wait_for(lambda: not run.status()["problem"], "space again")
        outcome = interrupted(run)
    assert outcome.stderr.count("trace.jsonl cannot be written: File too large; events are kept in memory") == 1
    versions = [event.version for event in outcome.of_kind(trace.Aggregated)]
    assert versions == list(range(1, outcome.summary["versions"] + 1))
    assert len(versions) > before + 5
    assert outcome.summary["torn_line"] is None
    assert accounts_balance(outcome)


def test_a_disk_that_stays_full_fails_the_run_and_the_trace_so_far_can_be_read(tmp_path: Path) -> None:
    with started(surviving(tmp_path)) as run:
        run.wait_until_traced("arrived", 3)
        fill_disk(run)
        run.process.send_signal(signal.SIGINT)
        outcome = run.finish()
    assert outcome.code == 1
    assert "trace.jsonl could not be written: File too large" in outcome.stderr
    assert "events are missing" in outcome.stderr
    assert "Traceback" not in outcome.stdout + outcome.stderr
    assert outcome.summary["stopped"] == "the aggregator ended early"
    assert outcome.summary["torn_line"] is None
    assert accounts_balance(outcome)
