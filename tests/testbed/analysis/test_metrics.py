"""Summary and tables of a small history, calculated by hand."""

from __future__ import annotations

import msgspec
import pytest

from testbed.analysis import metrics, run_tables
from testbed.analysis.totals import totals
from testbed.history import trace
from testbed.history.events.watts import Watts
from testbed.history.trace import (
    Abandoned,
    Aggregated,
    Arrived,
    Delivered,
    Dispatched,
    Downloaded,
    Event,
    Header,
    Ignored,
    Joined,
    Lost,
    Miss,
    Refusal,
    Rejected,
    Resent,
    Resumed,
    Scored,
    Stopped,
    Superseded,
    Suspended,
    Trained,
    Uploaded,
    Use,
)
from testbed.runs.results import columns
from testbed.runs.results.summary import ContributionFairness, CostToReach, FinalModelDelivery
from testbed.runs.results.table_rows import DeviceRow, MetricRow, VersionRow
from tests.testbed.analysis import histories


def joined(device: str, *cores: int) -> Joined:
    return Joined(t=0.0, device=device, pid=11, cores=list(cores), samples=100)


def sent(t: float, device: str, ticket: int, version: int) -> Dispatched:
    return Dispatched(t=t, device=device, ticket=ticket, version=version, steps=10)


def down(device: str, attempt: int, obtained: float, dropped: bool) -> Downloaded:
    return Downloaded(
        t=0.5,
        device=device,
        ticket=1,
        job=0,
        attempt=attempt,
        sent=0.0,
        asked=0.1,
        obtained=obtained,
        bytes=400,
        dropped=dropped,
    )


def up(device: str, attempt: int, obtained: float, dropped: bool) -> Uploaded:
    return Uploaded(
        t=3.0,
        device=device,
        ticket=1,
        job=0,
        attempt=attempt,
        sent=2.5,
        asked=0.1,
        obtained=obtained,
        bytes=420,
        dropped=dropped,
    )


def trained(device: str, obtained: float, misses: int = 0) -> Trained:
    return Trained(
        t=2.5,
        device=device,
        ticket=1,
        steps=10,
        asked=1.9,
        obtained=obtained,
        checks=10,
        misses=[Miss(number + 1, 0.19, 0.01) for number in range(misses)],
        use=Use(cpu=0.75, waited=0.25, stolen=0.125),
    )


EVENTS: list[Event] = [
    Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="demo",
        strategy="fedavg",
        seed=7,
        dilation=2.5,
        demand=0.5,
        pressure=None,
        started="2024",
        host="h",
    ),
    joined("a", 1),
    joined("b", 2),
    sent(0.0, "a", 1, 0),
    sent(0.0, "b", 2, 0),
    down("a", 0, 0.125, False),
    down("b", 0, 0.25, True),
    Resent(t=1.0, device="b", ticket=2),
    down("b", 1, 0.25, False),
    Suspended(t=2.0, device="b", ticket=2, asked=1.0, obtained=1.5),
    trained("a", 2.0),
    up("a", 0, 0.5, True),
    up("a", 1, 0.5, False),
    Arrived(
        t=3.2, device="a", ticket=1, due=3.125, received=3.2, handled=3.2, bytes=420, version=0, staleness=0, loss=1.0
    ),
    Aggregated(t=3.2, version=1, tickets=[1], weights=[1.0], staleness=[0]),
    sent(3.2, "a", 3, 1),
    trained("b", 3.0, misses=2),
    up("b", 0, 0.25, False),
    Aggregated(t=5.0, version=2, tickets=[2], weights=[0.5], staleness=[1]),
    sent(5.0, "b", 4, 2),
    # the evaluator may answer out of order, and late
    Scored(t=5.5, version=2, made=5.0, metrics={"accuracy": 0.5, "loss": 1.25}),
    Scored(t=9.5, version=1, made=3.2, metrics={"accuracy": 0.8}),
    Superseded(t=5.5, device="a", ticket=3),
    sent(5.5, "a", 5, 2),
    Abandoned(
        t=5.6,
        device="a",
        ticket=3,
        steps=4,
        seconds=1.0,
        checks=4,
        misses=[Miss(4, 0.19, 0.05)],
        use=Use(cpu=0.5, waited=0.0625, stolen=0.0),
    ),
    Rejected(t=6.0, device="b", ticket=4, reason="zero"),
    sent(6.0, "b", 6, 2),
    Lost(t=6.5, device="a", ticket=5, reason="gave up"),
    sent(6.5, "a", 7, 2),
    # ticket 2 is used a second time: it counts once, and only fresh tickets bring a staleness
    Aggregated(t=7.0, version=3, tickets=[6, 2], weights=[0.5, 0.5], staleness=[0]),
    sent(7.0, "b", 8, 3),
    Ignored(t=7.5, device="a", ticket=3),
    Refusal(t=7.5, peer="stranger", reason="unknown device"),
    Stopped(t=8.0, reason="8 seconds are over", version=3, in_flight=2),
]


def test_the_summary_has_each_figure_right() -> None:
    assert msgspec.to_builtins(metrics.summary(totals(EVENTS))) == {
        "schema": 1,
        "name": "demo",
        "strategy": "fedavg",
        "clock": "wall",
        "seed": 7,
        "devices": 2,
        "seconds": 8.0,
        "host_seconds": 20.0,
        "dilation": 2.5,
        "stopped": "8 seconds are over",
        "versions": 3,
        "model_sha256": None,
        "dispatched": 8,
        "applied": 3,  # tickets 1, 2, 6
        "rejected": 1,  # 4
        "lost": 1,  # 5
        "superseded": 1,  # 3
        "delivered": 0,
        "in_flight": 2,  # 7, 8
        "resent": 1,
        "resumed": 0,
        "restarts": 0,
        "ignored": 1,
        "refused": 1,
        "clipped": 0,
        "out_of_range": None,
        "scripted": 0,
        "scores": {
            "accuracy": {"last": 0.5, "lowest": 0.5, "highest": 0.8},
            "loss": {"last": 1.25, "lowest": 1.25, "highest": 1.25},
        },
        "final_accuracy": 0.5,
        "best_accuracy": 0.8,
        "target_accuracy": None,
        "to_accuracy": {
            level: {"seconds": 3.2, "joules": None, "bytes": 2460} for level in ("0.5", "0.6", "0.7", "0.8")
        },
        "mean_staleness": 0.333,
        "max_staleness": 1,
        "updates_per_second": 0.375,
        "reasons": {"rejected: zero": 1, "lost: gave up": 1},
        "refusals": {"unknown device": 1},
        "computing": {"asked_s": 3.8, "obtained_s": 5.0, "slowest": "b", "slowest_ratio": 1.5789},
        "abandoned_s": 1.0,
        "bytes_up": 1260,
        "bytes_down": 1200,
        "energy_j": None,
        "wasted_j": None,
        "energy": None,
        "contribution": {"jain": 0.9615, "gini": 0.1},  # weights 1 and 0.5 + 0.5 + 0.5
        "final_model": None,
        "host_energy": None,  # the trace alone does not have the rest
        "rounds": None,
        "fidelity": None,
        "replay": None,
        "torn_line": None,
    }


NO_JOULES = dict.fromkeys(
    ("energy_j", "idle_j", "suspended_j", "compute_j", "transmit_j", "receive_j", "wasted_j", "joules_per_update")
)


def test_the_rows_of_devices_have_each_figure_right() -> None:
    assert [msgspec.to_builtins(row) for row in run_tables.device_rows(totals(EVENTS))] == [
        {
            "device": "a",
            "pid": 11,
            "core": 1,
            "samples": 100,
            "jobs": 4,
            "to_aggregator": 1,
            "applied": 1,
            "rejected": 0,
            "lost": 1,
            "superseded": 1,
            "poisoned": 0,
            "drops": 1,
            "bytes_up": 840,
            "bytes_down": 400,
            "busy_s": 3.0,
            "download_s": 0.125,
            "upload_s": 1.0,
            "waiting_s": 0.0,
            "suspended_s": 0.0,
            "dead_s": 0.0,
            "abandoned_s": 1.0,
            "idle_s": 4.375,
            "asked_s": 1.9,
            "obtained_s": 2.0,
            **NO_JOULES,
            "contribution": 0.4,
            "first_loss": 1.0,
            "last_loss": 1.0,
            "missed": 1,
            "host_cpu_s": 1.25,
            "host_waited_s": 0.312,
            "mean_staleness": 0.0,
        },
        {
            "device": "b",
            "pid": 11,
            "core": 2,
            "samples": 100,
            "jobs": 4,
            "to_aggregator": 0,
            "applied": 2,
            "rejected": 1,
            "lost": 0,
            "superseded": 0,
            "poisoned": 0,
            "drops": 1,
            "bytes_up": 420,
            "bytes_down": 800,
            "busy_s": 3.0,
            "download_s": 0.5,
            "upload_s": 0.25,
            "waiting_s": 0.0,
            "suspended_s": 1.5,
            "dead_s": 0.0,
            "abandoned_s": 0.0,
            "idle_s": 5.25,
            "asked_s": 1.9,
            "obtained_s": 3.0,
            **NO_JOULES,
            "contribution": 0.6,
            "first_loss": None,
            "last_loss": None,
            "missed": 2,
            "host_cpu_s": 0.75,
            "host_waited_s": 0.25,
            "mean_staleness": 0.5,
        },
    ]


def test_the_rows_of_metrics_are_in_the_order_and_at_the_time_of_their_versions() -> None:
    assert [columns.as_cells(row) for row in run_tables.metric_rows(totals(EVENTS))] == [
        {"time_s": 3.2, "host_s": 8.0, "version": 1, "joules": None, "bytes": 2460, "accuracy": 0.8},
        {"time_s": 5.0, "host_s": 12.5, "version": 2, "joules": None, "bytes": 2460, "accuracy": 0.5, "loss": 1.25},
    ]


def test_the_rows_of_versions_have_each_figure_right() -> None:
    keys = (
        "version",
        "time_s",
        "latency_s",
        "updates",
        "new_updates",
        "weight",
        "mean_staleness",
        "max_staleness",
        "planned_s",
        "queue_s",
        "time_usage",
    )
    assert [msgspec.structs.astuple(row) for row in totals(EVENTS).made.rows] == [
        (1, 3.2, 3.2, 1, 1, 1.0, 0.0, 0, None, None, None),
        (2, 5.0, 1.8, 1, 1, 0.5, 1.0, 1, None, None, None),
        (3, 7.0, 2.0, 2, 1, 1.0, 0.0, 0, None, None, None),  # of two, one is new and has a staleness
    ]
    assert keys == VersionRow.__struct_fields__ == tuple(columns.column_names(VersionRow))


def test_a_version_has_the_planned_seconds_of_its_round_and_the_time_usage() -> None:
    def planned(version: int, at: float, seconds: float, queue: float, spent: float) -> trace.Planned:
        return trace.Planned(
            t=at,
            version=version,
            devices=["a"],
            shares=[1.0],
            remaining=[0.0],
            seconds=seconds,
            queue=queue,
            spent=spent,
            budget=8.0,
        )

    events = [
        histories.joined(),
        histories.sent(1),
        planned(0, 0.0, 1.5, 0.0, 0.0),
        histories.made(1, 2.0, 1),
        histories.sent(2, 2.0),
        planned(1, 2.0, 3.0, 1.0, 2.0),
        planned(1, 3.0, 2.5, 1.0, 2.0),
        histories.made(2, 6.0, 2),
        histories.stopped(6.0),
    ]
    rows = totals(events).made.rows
    assert [(row.latency_s, row.planned_s, row.queue_s, row.time_usage) for row in rows] == [
        (2.0, 1.5, 0.0, 0.25),
        (4.0, 2.5, 1.0, 0.75),
    ]


@pytest.mark.parametrize("length", range(1, len(EVENTS) + 1))
def test_no_dispatch_is_ever_unaccounted_for(length: int) -> None:
    total = totals(EVENTS[:length])
    tickets = {event.ticket for event in EVENTS[:length] if isinstance(event, Dispatched)}
    for event in EVENTS[:length]:
        if isinstance(event, Aggregated):
            tickets -= set(event.tickets)
        elif isinstance(event, (Rejected, Lost, Superseded)):
            tickets.remove(event.ticket)
    assert total.in_flight == len(tickets)
    assert total.dispatched == total.applied + total.rejected + total.lost + total.superseded + len(tickets)


def test_a_trace_without_an_end_lasts_until_its_last_event_and_says_so() -> None:
    summary = metrics.summary(totals(EVENTS[:-1]))
    assert summary.stopped == "the aggregator ended early"
    assert summary.seconds == 7.5  # the late score, at 9.5, is no event of the run
    assert summary.updates_per_second == 0.4


def test_arrivals_are_counted() -> None:
    assert totals(EVENTS).arrived == sum(isinstance(event, Arrived) for event in EVENTS) > 0


def test_an_accuracy_is_reached_when_its_version_was_made() -> None:
    first, second = run_tables.metric_rows(totals(EVENTS))
    assert [run_tables.first_to_reach([first, second], level) for level in (0.5, 0.8, 0.9)] == [first, first, None]
    assert (first.time_s, run_tables.first_to_reach([second], 0.5)) == (3.2, second)
    assert run_tables.first_to_reach([], 0.0) is None
    assert run_tables.first_to_reach([first, second], 1.0, "loss") == second  # the first has no such score


def test_an_empty_trace_has_a_summary() -> None:
    summary = metrics.summary(totals([]))
    assert (summary.devices, summary.dispatched, summary.in_flight, summary.seconds) == (0, 0, 0, 0.0)
    unknown = ("name", "strategy", "seed", "final_accuracy", "mean_staleness", "max_staleness", "updates_per_second")
    assert [getattr(summary, key) for key in unknown] == [None] * 7


def test_a_device_that_may_use_several_cores_has_no_core_of_its_own() -> None:
    (row,) = run_tables.device_rows(totals([joined("a", 0, 1), sent(0.0, "a", 1, 0)]))
    assert row.core is None


def test_a_device_that_comes_back_keeps_its_figures() -> None:
    back = Joined(t=4.0, device="a", pid=99, cores=[1], samples=100)
    (row,) = run_tables.device_rows(totals([joined("a", 1), sent(0.0, "a", 1, 0), back]))
    assert (row.pid, row.jobs) == (99, 1)


def test_a_device_that_reports_no_core_has_none() -> None:
    (row,) = run_tables.device_rows(totals([joined("a")]))
    assert row.core is None


def test_every_column_is_in_every_row() -> None:
    for row in run_tables.device_rows(totals(EVENTS)):
        assert list(columns.as_cells(row)) == columns.column_names(DeviceRow)


def test_a_stopped_trace_ends_when_it_was_stopped_although_devices_report_later() -> None:
    late = Trained(t=8.4, device="a", ticket=7, steps=1, asked=0.1, obtained=0.1, checks=1, misses=[])
    total = totals([*EVENTS[:-1], late, EVENTS[-1]])
    assert isinstance(EVENTS[-1], trace.Stopped)
    assert total.seconds == 8.0


# ---- abandoned work


def abandoned(ticket: int, seconds: float, device: str = "a") -> Abandoned:
    return Abandoned(t=6.0, device=device, ticket=ticket, steps=1, seconds=seconds, checks=0, misses=[])


def superseded(ticket: int, device: str = "a") -> Superseded:
    return Superseded(t=5.0, device=device, ticket=ticket)


def test_only_work_for_a_superseded_ticket_is_abandoned() -> None:
    begun = [joined("a", 1), joined("b", 2), sent(0.0, "a", 1, 0), sent(0.0, "b", 2, 0)]
    replaced = [superseded(1), sent(5.0, "a", 3, 1), abandoned(1, 1.25)]
    at_the_end = [abandoned(3, 0.5), abandoned(2, 4.0, "b")]  # they were stopped in the middle of their work
    total = totals([*begun, *replaced, *at_the_end])
    assert {name: device.abandoned_s for name, device in total.devices.items()} == {"a": 1.25, "b": 0.0}
    assert {name: device.busy_s for name, device in total.devices.items()} == {"a": 1.75, "b": 4.0}
    assert metrics.summary(total).abandoned_s == 1.25


def test_work_discarded_during_its_upload_is_abandoned_and_counts_as_busy_once() -> None:
    # Trained has reported ticket 1 before
    events = [joined("a", 1), sent(0.0, "a", 1, 0), trained("a", 2.0), superseded(1), abandoned(1, 2.0)]
    (device,) = totals(events).devices.values()
    assert (device.busy_s, device.abandoned_s) == (2.0, 2.0)


def test_work_that_ended_after_its_ticket_was_superseded_is_abandoned_once() -> None:
    # the upload was quicker than the newer model
    late = [superseded(1), sent(5.0, "a", 2, 1), trained("a", 2.0)]
    ignored = [Ignored(t=6.0, device="a", ticket=1)]
    (device,) = totals([joined("a", 1), sent(0.0, "a", 1, 0), *late, *ignored, *ignored]).devices.values()
    assert (device.busy_s, device.abandoned_s) == (2.0, 2.0)


def test_an_update_that_arrives_twice_is_not_abandoned() -> None:
    used = [trained("a", 2.0), Aggregated(t=3.0, version=1, tickets=[1], weights=[1.0], staleness=[0])]
    events = [joined("a", 1), sent(0.0, "a", 1, 0), *used, Ignored(t=3.0, device="a", ticket=1)]
    (device,) = totals(events).devices.values()
    assert (device.busy_s, device.abandoned_s) == (2.0, 0.0)


def test_work_that_the_final_model_cut_off_is_not_abandoned() -> None:
    events = [joined("a", 1), sent(0.0, "a", 1, 0), superseded(1), broadcast(5.0, "a", 2), abandoned(1, 1.25)]
    (device,) = totals(events).devices.values()
    assert (device.busy_s, device.abandoned_s, device.superseded) == (1.25, 0.0, 1)


# ---- energy


POWERED = Joined(t=0.0, device="p", pid=1, cores=[1], samples=10, watts=Watts(idle=1.5, compute=4.0))
OTHER = Joined(t=0.0, device="q", pid=2, cores=[1], samples=10, watts=Watts(idle=0.5, compute=10.0))
WORK = [
    sent(0.0, "p", 1, 0),
    Trained(t=3.0, device="p", ticket=1, steps=1, asked=2.0, obtained=2.0, checks=0, misses=[]),
    sent(3.0, "p", 2, 1),
    Abandoned(t=8.0, device="p", ticket=2, steps=1, seconds=0.5, checks=0, misses=[]),
    Stopped(t=8.0, reason="over", version=1, in_flight=1),
]


def test_a_device_uses_power_during_the_whole_run() -> None:
    total = totals([POWERED, OTHER, *WORK])
    rows = {row.device: row.energy_j for row in run_tables.device_rows(total)}
    assert rows == {"p": 18.25, "q": 4.0}  # 4·2.5 + 1.5·5.5, and 0.5·8
    assert metrics.summary(total).energy_j == 22.25


def test_a_killed_device_is_not_idle_and_uses_no_power() -> None:
    """Dead from 1 to 3 and from 7 to the end at 8; it computed for 2 s, so it was idle for 3 s."""
    life = [(1.0, "kill"), (3.0, "rejoin"), (7.0, "kill")]
    scripted = [trace.Scripted(t=t, device="a", do=do) for t, do in life]
    there = Joined(t=0.0, device="a", pid=11, cores=[1], samples=100, watts=Watts(idle=1.0, compute=10.0))
    worked = msgspec.structs.replace(trained("a", 2.0), t=6.0)
    total = totals([there, *scripted, worked, Stopped(t=8.0, reason="over", version=0, in_flight=0)])
    [row] = run_tables.device_rows(total)
    assert (row.dead_s, row.idle_s, row.energy_j) == (3.0, 3.0, 23.0)
    assert metrics.summary(total).scripted == 3


def test_a_fleet_with_one_device_without_a_power_model_has_no_joules() -> None:
    total = totals([POWERED, joined("a", 1), *WORK])
    assert {row.device: row.energy_j for row in run_tables.device_rows(total)} == {"p": 18.25, "a": None}
    assert metrics.summary(total).energy_j is None


# ---- what it took


def rising() -> list[Event]:
    """Version 1 at 3.5 with 0.55, version 2 at 6 with 0.85; by then 1100 and 2100 bytes were through.

    2 W all the time, 10 W instead from 1 to 3; 1 W more from 0 to 1 and from 4 to 5, 4 W more from 3 to 3.5.
    """
    return [
        histories.joined(),
        histories.sent(1),
        histories.download(1, 0.0, 1.0),
        histories.trained(1, 3.0, 2.0),
        histories.upload(1, 3.0, 3.5),
        histories.made(1, 3.5, 1),
        histories.scored(1, 3.5, 0.55),
        histories.sent(2, 3.5),
        histories.download(2, 4.0, 5.0),
        histories.made(2, 6.0),
        histories.scored(2, 6.0, 0.85),
        histories.upload(2, 6.5, 7.0, dropped=True),
        histories.stopped(8.0),
    ]


def test_joules_and_bytes_are_those_until_a_version_was_made() -> None:
    rows = run_tables.metric_rows(totals(rising()))
    assert [(row.time_s, row.joules, row.bytes) for row in rows] == [(3.5, 26.0, 1100), (6.0, 32.0, 2100)]


def test_a_transfer_counts_from_its_end_on_lost_or_not() -> None:
    ends = [histories.scored(number, moment, 0.1) for number, moment in enumerate((0.5, 1.0, 3.25, 6.75, 7.0))]
    rows = run_tables.metric_rows(totals([*rising()[:-1], *ends]))
    assert {row.time_s: row.bytes for row in rows if row.scores["accuracy"] == 0.1} == {
        0.5: 0,
        1.0: 1000,
        3.25: 1000,
        6.75: 2100,
        7.0: 2200,
    }


def test_reached_levels_have_their_seconds_joules_and_bytes() -> None:
    first, second = (
        CostToReach(seconds=3.5, joules=26.0, bytes=1100),
        CostToReach(seconds=6.0, joules=32.0, bytes=2100),
    )
    summary = metrics.summary(totals(rising()))
    assert summary.to_accuracy == {"0.5": first, "0.6": second, "0.7": second, "0.8": second}


@pytest.mark.parametrize(
    ("target", "reached"), [(0.55, True), (0.825, True), (0.86, False), (0.8, True), (None, False)]
)
def test_the_target_of_the_run_is_a_level_too(target: float | None, reached: bool) -> None:
    summary = metrics.summary(totals(rising()), target)
    levels = list(summary.to_accuracy)
    assert summary.target_accuracy == target
    assert (f"{target:g}" in levels if target is not None else False) == reached
    assert levels == sorted(levels)
    assert len(levels) == 4 + (reached and target != 0.8)


def test_an_accuracy_that_was_reached_and_lost_again_counts_from_when_it_was_reached() -> None:
    worse = [histories.made(3, 7.0), histories.scored(3, 7.0, 0.4)]
    summary = metrics.summary(totals([*rising()[:-1], *worse]))
    assert (summary.final_accuracy, summary.best_accuracy) == (0.4, 0.85)
    assert summary.to_accuracy["0.8"].seconds == 6.0


# ---- contributions


def shares(*events: Event) -> dict[str, float]:
    return run_tables.contributions(totals([joined("a", 1), joined("b", 2), joined("c", 3), *events]))


def test_a_ticket_that_is_used_again_contributes_again() -> None:
    """Ticket 1 (a) with 1, and again with 0.5; ticket 2 (b) with −0.5: a negative weight also changes the model."""
    events = [
        sent(0.0, "a", 1, 0),
        sent(0.0, "b", 2, 0),
        histories.made(1, 1.0, 1),
        Aggregated(t=2.0, version=2, tickets=[1, 2], weights=[0.5, -0.5], staleness=[1]),
    ]
    assert shares(*events) == {"a": 0.75, "b": 0.25, "c": 0.0}
    total = totals([joined("a", 1), joined("b", 2), *events])
    assert (total.applied, [row.weight for row in total.made.rows]) == (2, [1.0, 1.0])
    assert metrics.contribution(total) == ContributionFairness(jain=0.8, gini=0.25)
    assert [row.contribution for row in run_tables.device_rows(total)] == [0.75, 0.25]


def test_a_weight_that_was_not_finite_contributes_nothing() -> None:
    assert shares(sent(0.0, "a", 1, 0), sent(0.0, "b", 2, 0), histories.made(1, 1.0, 1, 2, weights=[None, 2.0])) == {
        "a": 0.0,
        "b": 1.0,
        "c": 0.0,
    }


def test_without_contributions_there_is_no_fairness() -> None:
    assert set(shares().values()) == {0.0}
    assert metrics.summary(totals([joined("a", 1)])).contribution is None


def test_the_losses_of_a_device_are_those_of_its_first_and_its_last_update() -> None:
    arrived = [
        Arrived(t=t, device="a", ticket=1, due=t, received=t, handled=t, bytes=1, version=0, staleness=0, loss=loss)
        for t, loss in ((1.0, 2.5), (2.0, 1.5), (3.0, None), (4.0, 0.75), (5.0, None))
    ]
    row, other = run_tables.device_rows(totals([joined("a", 1), joined("b", 1), *arrived]))
    assert (row.first_loss, row.last_loss) == (2.5, 0.75)
    assert (other.first_loss, other.last_loss) == (None, None)


# ---- the final model


def broadcast(t: float, device: str, ticket: int) -> Dispatched:
    return Dispatched(t=t, device=device, ticket=ticket, version=1, steps=0)


def final(device: str, ticket: int, sent: float, obtained: float, dropped: bool = False) -> Downloaded:
    return Downloaded(
        t=9.0,
        device=device,
        ticket=ticket,
        job=1,
        attempt=0,
        sent=sent,
        asked=obtained,
        obtained=obtained,
        bytes=400,
        dropped=dropped,
    )


BROADCAST = [
    joined("a", 1),
    joined("b", 2),
    sent(0.0, "a", 1, 0),
    sent(0.0, "b", 2, 0),
    down("a", 0, 0.125, False),
    superseded(1),
    broadcast(5.0, "a", 3),
    superseded(2, "b"),
    broadcast(5.0, "b", 4),
    final("a", 3, sent=5.0, obtained=0.25),
]


def test_a_strategy_without_a_broadcast_has_no_figures_of_the_final_model() -> None:
    assert metrics.final_model(totals(BROADCAST[:5])) is None
    assert metrics.final_model(totals([])) is None


def test_the_final_model_is_on_a_device_when_its_download_ended() -> None:
    arrived = [Delivered(t=6.0, device="a", ticket=3), final("b", 4, sent=6.5, obtained=0.25)]
    delivered = [Delivered(t=7.5, device="b", ticket=4)]  # the aggregator learned of it with the next heartbeat
    total = totals([*BROADCAST, *arrived, *delivered])
    assert metrics.final_model(total) == FinalModelDelivery(on=2, of=2, seconds=1.75)
    assert (total.delivered, total.superseded, total.in_flight) == (2, 2, 0)


def test_a_final_model_whose_transfer_was_lost_is_not_on_the_device() -> None:
    total = totals([*BROADCAST, final("b", 4, sent=5.0, obtained=0.5, dropped=True)])
    assert metrics.final_model(total) == FinalModelDelivery(on=1, of=2, seconds=0.25)


def test_a_final_model_that_no_device_received_took_until_the_end() -> None:
    stopped = Stopped(t=8.0, reason="over", version=1, in_flight=2)
    assert metrics.final_model(totals([*BROADCAST[:-1], stopped])) == FinalModelDelivery(on=0, of=2, seconds=3.0)


def test_a_device_that_got_the_final_model_twice_counts_once() -> None:
    back = [Lost(t=6.0, device="a", ticket=3, reason="restarted"), joined("a", 1), broadcast(6.0, "a", 5)]
    there = [final("a", 5, sent=6.0, obtained=0.5), final("b", 4, sent=5.0, obtained=0.25)]
    assert metrics.final_model(totals([*BROADCAST, *back, *there])) == FinalModelDelivery(on=2, of=2, seconds=1.5)


def test_the_final_model_is_no_job() -> None:
    rows = {row.device: row for row in run_tables.device_rows(totals(BROADCAST))}
    assert [rows[name].jobs for name in "ab"] == [1, 1]
    assert rows["a"].bytes_down == 800  # but it was sent


def test_the_summary_counts_the_tickets_of_the_final_model() -> None:
    total = totals([*BROADCAST, Delivered(t=6.0, device="a", ticket=3)])
    summary = metrics.summary(total)
    assert (summary.dispatched, summary.superseded, summary.delivered, summary.in_flight) == (4, 2, 1, 1)
    assert summary.final_model == FinalModelDelivery(on=1, of=2, seconds=0.25)


def test_every_metric_has_a_column_and_none_replaces_our_own() -> None:
    scored = trace.Scored(t=4.0, version=1, made=3.0, metrics={"perplexity": 12.5, "bytes": 7.0})
    [row] = run_tables.metric_rows(totals([joined("a", 1), scored]))
    assert (row.scores, row.bytes, row.time_s) == ({"perplexity": 12.5, "bytes": 7.0}, 0, 3.0)
    cells = columns.as_cells(row)
    assert (cells["perplexity"], cells["bytes"], cells["metric_bytes"], cells["time_s"]) == (12.5, 0, 7.0, 3.0)
    always = ["time_s", "host_s", "version", "joules", "bytes", "accuracy", "loss"]
    assert columns.column_names(MetricRow) == always
    assert list(columns.Columns(MetricRow, [row])) == [*always, "perplexity", "metric_bytes"]


def test_host_seconds_of_a_run_resumed_at_another_dilation_are_summed() -> None:
    header = Header(
        t=0.0,
        schema=trace.SCHEMA,
        name="n",
        strategy="s",
        seed=1,
        dilation=2.0,
        demand=0.5,
        pressure=None,
        started="",
        host="h",
    )
    resumed = [Resumed(t=t, version=0, undone=0, dilation=k, started="") for t, k in ((4.0, 1.0), (6.0, 3.0))]
    total = totals([header, *resumed, Stopped(t=10.0, reason="over", version=0, in_flight=0)])
    assert [total.host_seconds(moment) for moment in (0.0, 3.0, 5.0, 10.0)] == [0.0, 6.0, 9.0, 22.0]
    assert metrics.summary(total).host_seconds == 22.0
