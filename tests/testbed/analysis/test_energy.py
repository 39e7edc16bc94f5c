"""Joules of short histories, calculated by hand.

The device uses 2 W when idle, 10 W when it computes, 0.5 W when it is absent, and additionally 4 W while it sends and
1 W while it receives.
"""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis import energy, metrics, run_tables
from testbed.analysis.energy import EnergyAccount
from testbed.analysis.timeline import STATES, Span
from testbed.analysis.totals import Totals, totals
from testbed.history.events.watts import Watts
from testbed.history.trace import Delivered, Event, Lost, Rejected, Superseded
from testbed.runs.results.summary import FleetEnergy
from testbed.runs.results.table_rows import DeviceRow
from tests.testbed.analysis.histories import (
    WATTS,
    abandoned,
    download,
    joined,
    made,
    scripted,
    sent,
    stopped,
    suspended,
    trained,
    upload,
)

JOB: list[Event] = [joined(), sent(1), download(1, 0.0, 1.0), trained(1, 3.0, 2.0), upload(1, 3.0, 3.5)]
"""One job, until 3.5. It cost 1·1 to receive, 10·2 to compute and 4·0.5 to send: 23 J."""


def of(*events: Event) -> FleetEnergy:
    found = metrics.joules(totals(events))
    assert found is not None
    return found


def spent(total: Totals, *moments: float) -> list[float]:
    return total.energy.joules_at(moments)


# ---- what it comes to


def test_a_job_costs_its_seconds_in_each_state() -> None:
    found = of(*JOB, made(1, 3.5, 1), stopped(8.0))
    assert msgspec.to_builtins(found) == {
        "model": energy.MODEL,
        "total_j": 35.0,
        "by_phase_j": {"idle": 12.0, "suspended": 0.0, "compute": 20.0, "transmit": 2.0, "receive": 1.0},  # 2·6 idle
        "wasted_j": 0.0,
        "wasted_by_fate_j": {},
        "lost_transfers_j": 0.0,
        "joules_per_update": 35.0,
    }
    assert "proxy" in energy.MODEL


def test_an_absent_device_uses_the_suspended_watts_of_its_profile() -> None:
    found = of(joined(), suspended(0, 1.0, 3.0, away=True), stopped(4.0))
    assert found.by_phase_j == {"idle": 4.0, "suspended": 1.0, "compute": 0.0, "transmit": 0.0, "receive": 0.0}


def test_without_suspended_watts_an_absent_device_uses_idle_watts() -> None:
    older = joined(watts=Watts(idle=2.0, compute=10.0))
    assert of(older, suspended(0, 1.0, 3.0), stopped(4.0)).total_j == 8.0
    assert of(older, *JOB[1:], stopped(8.0)).total_j == 32.0  # and its radio costs nothing


def test_a_device_that_joins_late_used_no_energy_before() -> None:
    assert of(joined(at=3.0), stopped(4.0)).total_j == 2.0


def test_a_dead_device_uses_no_energy_until_it_rejoins() -> None:
    life = [joined(), scripted("kill", 1.0), scripted("rejoin", 3.0), joined(at=3.5), scripted("kill", 7.0)]
    total = totals([*life, stopped(8.0)])
    assert metrics.joules(total) == of(*life, stopped(8.0))
    assert of(*life, stopped(8.0)).by_phase_j["idle"] == 10.0  # 1 s, and from 3 to 7
    assert spent(total, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0) == [2.0, 2.0, 2.0, 6.0, 10.0, 10.0]


def test_a_transfer_during_computing_costs_the_same_as_in_idle_time() -> None:
    """A restarted device downloads from 1 to 3 beside its old work, which ends with it."""
    found = of(joined(), sent(1), sent(2), download(2, 1.0, 3.0), abandoned(1, 3.0, 2.0), stopped(4.0))
    assert found.by_phase_j == {"idle": 4.0, "suspended": 0.0, "compute": 20.0, "transmit": 0.0, "receive": 2.0}


def test_lost_transfers_cost_the_same_and_are_counted_separately() -> None:
    lost = [download(1, 0.0, 0.5, dropped=True), download(1, 0.5, 1.0), upload(1, 3.0, 3.5, dropped=True)]
    found = of(joined(), sent(1), *lost, upload(1, 3.5, 4.0), stopped(4.0))
    assert found.lost_transfers_j == 2.5  # 1·0.5 + 4·0.5
    assert (found.by_phase_j["receive"], found.by_phase_j["transmit"]) == (1.0, 4.0)


def test_joules_per_update_are_those_of_the_fleet_divided_by_the_applied_updates() -> None:
    fleet = [*JOB, joined("b")]
    assert of(*fleet, made(1, 3.5, 1), stopped(8.0)).joules_per_update == 51.0  # 35 and 2·8 of an idle one
    assert of(*fleet, stopped(8.0)).joules_per_update is None


# ---- what was wasted


@pytest.mark.parametrize(
    ("end", "wasted"),
    [
        ([made(1, 3.5, 1)], {}),
        ([Rejected(t=3.5, device="a", ticket=1, reason="stale")], {"rejected": 23.0}),
        ([Lost(t=9.0, device="a", ticket=1, reason="gave up")], {"lost": 23.0}),
        ([Superseded(t=2.0, device="a", ticket=1)], {"superseded": 23.0}),
        ([], {"unfinished": 23.0}),
    ],
    ids=["applied", "rejected", "lost", "superseded", "unfinished"],
)
def test_the_energy_of_a_ticket_is_wasted_or_not_by_how_it_ended(end: list[Event], wasted: dict[str, float]) -> None:
    found = of(*JOB, *end, stopped(8.0))
    assert found.wasted_by_fate_j == wasted
    assert found.wasted_j == sum(wasted.values())
    [row] = run_tables.device_rows(totals([*JOB, *end, stopped(8.0)]))
    assert row.wasted_j == sum(wasted.values())


def test_work_discarded_for_a_newer_model_is_wasted_and_the_newer_work_is_not() -> None:
    restarted = [Superseded(t=1.0, device="a", ticket=1), sent(2, 1.0), download(2, 1.0, 3.0), abandoned(1, 3.0, 2.0)]
    found = of(joined(), sent(1), *restarted, trained(2, 4.0, 1.0), made(1, 4.0, 2), stopped(4.0))
    assert found.wasted_by_fate_j == {"superseded": 20.0}


def test_lost_transfers_of_an_applied_update_are_not_wasted() -> None:
    events = [*JOB[:-1], upload(1, 3.0, 3.5, dropped=True), upload(1, 3.5, 4.0), made(1, 4.0, 1), stopped(4.0)]
    found = of(*events)
    assert (found.lost_transfers_j, found.wasted_j) == (2.0, 0.0)


def test_the_final_model_asks_for_no_update_and_is_not_wasted() -> None:
    handed = [sent(1, steps=0), download(1, 0.0, 1.0)]
    assert of(joined(), *handed, Delivered(t=2.0, device="a", ticket=1), stopped(4.0)).wasted_j == 0.0
    assert of(joined(), *handed, stopped(4.0)).wasted_j == 0.0  # the heartbeat that says so came too late


def test_a_final_model_that_never_arrived_is_wasted() -> None:
    lost = [download(1, 0.0, 1.0, dropped=True), Lost(t=3.0, device="a", ticket=1, reason="left")]
    assert of(joined(), sent(1, steps=0), *lost, stopped(4.0)).wasted_by_fate_j == {"lost": 1.0}


def test_the_fates_of_several_tickets_are_counted_separately() -> None:
    more = [
        sent(2, 4.0),
        trained(2, 5.0, 1.0),
        sent(3, 5.0),
        trained(3, 6.0, 0.5),
        sent(4, 6.0),
        abandoned(4, 8.0, 2.0),
    ]
    ends: list[Event] = [made(1, 4.0, 1), Lost(t=5.0, device="a", ticket=2, reason="gave up")]
    ends.append(Rejected(t=6.0, device="a", ticket=3, reason="stale"))
    found = of(*JOB, *more, *ends, stopped(8.0))
    assert found.wasted_by_fate_j == {"lost": 10.0, "rejected": 5.0, "unfinished": 20.0}
    assert found.wasted_j == 35.0 <= found.total_j


# ---- over time


def test_the_curve_of_a_job_is_as_drawn() -> None:
    """2 + 1 W until 1, 10 W until 3, 2 + 4 W until 3.5, and then 2 W."""
    total = totals([*JOB, made(1, 3.5, 1), stopped(8.0)])
    drawn = {0.0: 0.0, 0.5: 1.5, 1.0: 3.0, 2.0: 13.0, 3.0: 23.0, 3.25: 24.5, 3.5: 26.0, 5.0: 29.0, 8.0: 35.0}
    assert spent(total, *drawn) == list(drawn.values())
    assert spent(total, 8.0, 0.5) == [35.0, 1.5]  # in any order
    assert spent(total) == []


def test_the_curve_of_a_suspension_in_the_middle_of_computing_is_as_drawn() -> None:
    """It computes from 1 to 2 and from 4 to 5, and uses 0.5 W between."""
    total = totals([joined(), suspended(1, 2.0, 4.0), trained(1, 5.0, 2.0), stopped(6.0)])
    assert spent(total, 1.0, 1.5, 2.0, 3.0, 4.0, 4.5, 5.0, 6.0) == [2.0, 7.0, 12.0, 12.5, 13.0, 18.0, 23.0, 25.0]


def test_the_curve_of_a_transfer_with_an_absence_is_as_drawn() -> None:
    """Receiving (2 + 1 W) from 1 to 1.5 and from 3.5 to 4; absent (0.5 W) between."""
    total = totals(
        [joined(), sent(1), suspended(0, 1.5, 3.5, away=True), download(1, 1.0, 4.0, absent=2.0), stopped(5.0)]
    )
    assert spent(total, 1.0, 1.5, 2.5, 3.5, 4.0, 5.0) == [2.0, 3.5, 4.0, 4.5, 6.0, 8.0]


def test_the_curve_of_a_download_during_an_old_job_is_as_drawn() -> None:
    """10 W from 0, 11 W from 1 to 3, then 2 W."""
    total = totals([joined(), sent(1), sent(2), download(2, 1.0, 3.0), abandoned(1, 3.0, 3.0), stopped(4.0)])
    assert spent(total, 1.0, 2.0, 3.0, 4.0) == [10.0, 21.0, 32.0, 34.0]


def test_the_curve_of_a_fleet_is_the_sum_of_its_devices() -> None:
    total = totals([*JOB, joined("b", at=2.0), trained(7, 5.0, 1.0, "b"), stopped(8.0)])
    assert spent(total, 1.0, 2.0, 3.0, 4.5, 8.0) == [3.0, 13.0, 25.0, 28.0 + 4.0 + 5.0, 35.0 + 4.0 + 10.0 + 6.0]


# ---- without a power model


def test_without_a_power_model_there_are_no_joules_anywhere_and_never_0() -> None:
    job = [joined("b", None), sent(2, device="b"), download(2, 0.0, 1.0, "b"), trained(2, 3.0, 2.0, "b")]
    total = totals([*JOB, *job, made(1, 3.5, 1, 2), stopped(8.0)])
    assert metrics.joules(total) is None
    summary = metrics.summary(total)
    assert [getattr(summary, key) for key in ("energy_j", "wasted_j", "energy")] == [None] * 3
    own, other = run_tables.device_rows(total)
    names = DeviceRow.__struct_fields__
    columns = [column for column in names if column.endswith("_j") or column == "joules_per_update"]
    assert len(columns) == 8
    assert [getattr(other, column) for column in columns] == [None] * 8
    assert None not in [getattr(own, column) for column in columns]
    assert other.busy_s == 2.0  # its seconds are known all the same
    assert total.energy.devices["b"].joules(8.0) is None


def test_scores_of_a_fleet_without_a_power_model_are_at_no_joules() -> None:
    assert totals([]).energy.complete is False
    assert metrics.joules(totals([])) is None


# ---- any history


MOMENTS = st.integers(0, 64).map(lambda eighths: eighths / 8)


@st.composite
def _spans(draw: st.DrawFn) -> list[Span]:
    """Draw the spans of two devices in a run of 8 s: one state after another, with transfers beside them."""
    found = []
    for device in "ab":
        edges = sorted(draw(st.lists(MOMENTS, max_size=12)))
        for ticket, (start, end) in enumerate(itertools.pairwise(edges)):
            state = draw(st.sampled_from(["computing", "abandoned", "suspended", "dead", None]))
            if state is not None:
                found.append(Span(device, state, start, end, ticket))
        for start, end in draw(st.lists(st.tuples(MOMENTS, MOMENTS).map(sorted), max_size=6)):
            state = draw(st.sampled_from(["download", "upload"]))
            found.append(Span(device, state, start, end, 1, draw(st.booleans())))
    return found


@given(_spans())
def test_the_energy_at_the_end_is_the_sum_of_the_phases(found: list[Span]) -> None:
    ledger = EnergyAccount()
    ledger.join("a", WATTS, 0.0)
    ledger.join("b", Watts(idle=0.25, compute=3.0, suspended=0.125, transmit=1.5, receive=0.75), 0.0)
    for span in found:
        ledger.spend(span)
    phases = [device.phases(8.0) or {} for device in ledger.devices.values()]
    total = math.fsum(joules for found in phases for joules in found.values())
    curve = ledger.joules_at([moment / 4 for moment in range(33)])
    assert curve[-1] == pytest.approx(total, abs=1e-9)
    assert all(before <= after + 1e-9 for before, after in itertools.pairwise(curve))
    charged = sum(sum(device.tickets.values()) for device in ledger.devices.values())
    assert charged == pytest.approx(sum(p["compute"] + p["transmit"] + p["receive"] for p in phases), abs=1e-9)


def test_every_state_has_its_watts() -> None:
    """Above 2 W of idleness."""
    above = {"download": 1.0, "computing": 8.0, "upload": 4.0, "suspended": -1.5, "abandoned": 8.0, "dead": -2.0}
    above["waiting"] = 0.0
    assert set(above) == set(STATES)
    for state, watts in above.items():
        ledger = EnergyAccount()
        ledger.join("a", WATTS, 0.0)
        ledger.spend(Span("a", state, 1.0, 2.0, 1))
        assert ledger.joules_at([3.0]) == [6.0 + watts]


# ---- the end of the run, and idle seconds


def test_work_after_the_end_of_the_run_does_not_count() -> None:
    """It computed from 2 to 20 in a run that ended at 10: 8 s, and idle for the first two."""
    total = totals([joined(), sent(1), trained(1, end=20.0, seconds=18.0), stopped(10.0)])
    device = total.energy.devices["a"]
    assert (device.seconds["computing"], device.idle(10.0)) == (8.0, 2.0)
    assert device.phases(10.0) == {"idle": 4.0, "suspended": 0.0, "compute": 80.0, "transmit": 0.0, "receive": 0.0}
    assert total.energy.joules_at([10.0]) == [84.0]
    assert total.energy.wasted("a") == {"unfinished": 80.0}


def test_a_device_that_downloads_while_computing_is_idle_only_for_the_rest() -> None:
    total = totals([joined(), sent(1), download(2, 0.0, 5.0), trained(1, end=6.0, seconds=5.0), stopped(10.0)])
    assert total.energy.devices["a"].idle(10.0) == 4.0


def test_a_device_without_a_job_is_idle_since_it_joined() -> None:
    total = totals([joined(at=2.0), stopped(10.0)])
    assert total.energy.devices["a"].idle(10.0) == 8.0
