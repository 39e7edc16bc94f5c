"""The certificate: ten invariants, each exactly at and just above its limits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from testbed.emulation.faults import timetable
from testbed.fidelity.certify import certify
from testbed.history import trace
from testbed.history.trace import Event, Miss, Use
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Direction, ScriptedEvent
from testbed.runs.results.certificate import Invariant
from tests.properties import examples
from tests.testbed.examples import EVENTS
from tests.testbed.fidelity.test_evidence import (
    DOWN,
    UP,
    abandoned,
    aggregated,
    arrived,
    dispatched,
    downloaded,
    header,
    round_trip,
    stopped,
    trained,
    uploaded,
)

NAMES = [
    "step time",
    "stolen CPU",
    "link delay",
    "link rate",
    "loss",
    "causality",
    "aggregator",
    "canary",
    "admission",
    "conservation",
]
A_BIT = 1e-9
PASS, WARN, FAIL, NOT_MEASURED = "PASS", "WARN", "FAIL", "not measured"


def spec(name: str = "a", index: int = 0, *, throttle: str = "pace", **directions: Any) -> DeviceSpec:
    return DeviceSpec(
        name=name,
        index=index,
        group=0,
        title="",
        throttle=throttle,
        seconds_per_sample=0.01,
        suspend=0.0,
        suspend_max=1.0,
        suspend_by="hold",
        on_drop="retry",
        tick=1.0,
        **{"up": Direction(delay=UP), "down": Direction(delay=DOWN)} | directions,
    )


def load(**changes: Any) -> trace.Load:
    plain = trace.Load(t=1.0, span=1.0, busy=0.1, served=10, service=0.01, longest=0.002, waited=0.0, pressure=0.05)
    return replace(plain, **changes)


def canary(obtained: float = 1.0, core: int = 1) -> trace.Canary:
    return trace.Canary(t=1.0, core=core, asked=1.0, alone=1.0, obtained=obtained)


def judged(name: str, events: Sequence[Event], *devices: DeviceSpec) -> Invariant:
    """One line of the certificate."""
    (line,) = [line for line in certify(events, devices or (spec(),)).invariants if line.name == name]
    return line


GOOD = [header(), *round_trip(1), *round_trip(2, 2.0, job=1), load(), canary(), stopped()]
"""A run in which nothing was late."""


# ---- the whole


def test_a_good_run_passes_all_ten_except_an_unset_rate() -> None:
    certificate = certify(GOOD, [spec()])
    assert certificate.verdict == PASS
    assert {line.name: line.verdict.value for line in certificate.invariants} == dict.fromkeys(NAMES, PASS) | {
        "link rate": NOT_MEASURED
    }


@pytest.mark.parametrize(
    ("bad", "verdict"),
    [
        ([canary(1.03)], WARN),
        ([canary(1.06)], FAIL),
        ([canary(1.03), load(busy=5.0)], FAIL),
        ([load(busy=1.0), canary(1.06)], FAIL),
    ],
)
def test_the_whole_is_as_bad_as_its_worst_line(bad: list[Event], verdict: str) -> None:
    certificate = certify([*GOOD[:-3], *bad, stopped()], [spec()])
    assert certificate.verdict == verdict
    assert certificate.of(certificate.verdict)


def test_a_certificate_has_the_dilation_of_the_run() -> None:
    assert certify([header(dilation=4.0)], [spec()]).dilation == 4.0
    assert certify([], []).dilation == 1.0


@pytest.mark.parametrize("events", [GOOD, list(EVENTS), []], ids=["good", "one of each", "nothing"])
def test_a_certificate_is_plain_json(events: list[Event]) -> None:
    table = json.loads(json.dumps(msgspec.to_builtins(certify(events, [spec()])), allow_nan=False))
    assert [row["name"] for row in table["invariants"]] == NAMES
    assert set(table["invariants"][0]) == {"name", "verdict", "found", "limits", "worst", "figures"}


@examples(100)
@given(st.permutations(GOOD), st.integers(0, len(GOOD)))
def test_every_part_of_a_trace_has_a_certificate(events: list[Event], length: int) -> None:
    text = json.dumps(msgspec.to_builtins(certify(events[:length], [spec()])), allow_nan=False)
    assert [row["name"] for row in json.loads(text)["invariants"]] == NAMES


def test_a_run_without_devices_has_a_certificate() -> None:
    assert len(certify([header(), stopped()], []).invariants) == 10


def test_a_run_without_events_does_not_pass() -> None:
    assert certify([], [spec()]).verdict != PASS


# ---- step time


@pytest.mark.parametrize(
    ("late", "verdict"), [(0.05, PASS), (0.05 + A_BIT, WARN), (0.10, WARN), (0.10 + A_BIT, FAIL), (5.0, FAIL)]
)
def test_the_p99_of_step_times_may_be_5_percent_off(late: float, verdict: str) -> None:
    # one miss in a hundred: it took too long, and the next step less than asked
    line = judged("step time", [*round_trip(misses=[Miss(50, 1.0, late)])])
    assert line.verdict == verdict
    assert line.figures["p99"] == late
    assert (line.figures["p50"], line.figures["p95"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("missed", "verdict"), [(0, PASS), (10, PASS), (11, WARN), (50, WARN), (51, FAIL), (999, FAIL)]
)
def test_one_deadline_in_a_hundred_may_be_missed(missed: int, verdict: str) -> None:
    misses = [Miss(check, 1.0, 1e-6) for check in range(1, missed + 1)]
    line = judged("step time", round_trip(checks=1000, misses=misses))
    assert (line.verdict, line.figures["missed"]) == (verdict, missed / 1000)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.0, PASS),
        (1.05 - A_BIT, PASS),
        (1.05 + A_BIT, WARN),
        (1.10 - A_BIT, WARN),
        (1.10 + A_BIT, FAIL),
        (0.95 + A_BIT, PASS),
        (0.95 - A_BIT, WARN),
        (0.90 - A_BIT, FAIL),
    ],
)
def test_the_round_trips_of_a_device_may_be_5_percent_off(ratio: float, verdict: str) -> None:
    events = [dispatched(), downloaded(), trained(), uploaded(), arrived(at=1.75 * ratio)]
    assert judged("step time", events).verdict == verdict


def test_round_trips_exactly_5_percent_off_pass() -> None:
    events = [dispatched(), trained(asked=20.0), uploaded(asked=0.0), arrived(at=21.0)]
    assert judged("step time", events).verdict == PASS


def test_one_slow_device_among_many_is_named() -> None:
    good = [event for n in range(9) for event in round_trip(n + 1, device=f"good-{n}")]
    bad = [dispatched(10, device="bad"), downloaded(10, device="bad"), trained(10, device="bad")]
    bad += [uploaded(10, device="bad"), arrived(10, at=3.5, device="bad")]
    devices = [*(spec(f"good-{n}", n) for n in range(9)), spec("bad", 9)]
    line = judged("step time", [*good, *bad], *devices)
    assert (line.verdict, line.worst) == (FAIL, "bad")
    assert "bad 100.0% off" in line.found


def test_a_device_that_finished_nothing_is_judged_by_its_misses() -> None:
    line = judged("step time", [abandoned(checks=3, misses=[Miss(1, 0.1, 9.0), Miss(2, 0.1, 9.0)])])
    assert (line.verdict, line.worst) == (FAIL, "a")


def test_devices_without_a_last_report_are_a_warning() -> None:
    line = judged("step time", [*round_trip(), replace(stopped(), silent=["b", "c"])])
    assert (line.verdict, line.figures["silent"]) == (WARN, 2)
    assert "2 devices, such as b, sent no last report" in line.found


def test_a_run_whose_aggregator_died_does_not_pass() -> None:
    events = [header(), load(), *round_trip(), stopped()]
    assert certify(events, [spec()]).verdict == PASS
    assert certify(events[:-1], [spec()]).verdict == NOT_MEASURED


@pytest.mark.parametrize("events", [[], [trained(asked=0.0, checks=0)]], ids=["nothing", "not throttled"])
def test_step_time_is_not_measured_where_no_device_was_throttled(events: list[Event]) -> None:
    assert judged("step time", events).verdict == NOT_MEASURED


# ---- stolen CPU


def stolen(seconds: float, **changes: Any) -> trace.Trained:
    return trained(use=Use(cpu=0.5, waited=2 * seconds, stolen=seconds), **changes)


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [(0.0, PASS), (0.02, PASS), (0.02 + A_BIT, WARN), (0.10, WARN), (0.10 + A_BIT, FAIL), (1.0, FAIL)],
)
def test_waiting_may_cost_2_percent_of_the_time_with_deadlines(seconds: float, verdict: str) -> None:
    line = judged("stolen CPU", [stolen(seconds)])
    assert (line.verdict, line.figures["mean"]) == (verdict, seconds)
    assert line.figures["waited"] == 2 * seconds


def test_stolen_host_seconds_are_compared_with_host_seconds() -> None:
    assert judged("stolen CPU", [header(dilation=2.0), stolen(0.04)]).verdict == PASS
    assert judged("stolen CPU", [header(dilation=0.5), stolen(0.04)]).verdict == WARN


def test_the_device_that_waited_most_is_named() -> None:
    events = [stolen(0.01), stolen(0.04, device="b", ticket=2), stolen(0.0, device="c", ticket=3)]
    line = judged("stolen CPU", events, spec(), spec("b", 1), spec("c", 2))
    assert (line.worst, line.verdict) == ("b", PASS)
    assert (line.figures["worst_device"], line.figures["worst_job"]) == (0.04, 0.04)


@pytest.mark.parametrize("events", [[], [trained(use=None)]], ids=["nothing", "no schedstat"])
def test_stolen_cpu_is_not_measured_without_figures_of_the_kernel(events: list[Event]) -> None:
    line = judged("stolen CPU", events)
    assert line.verdict == NOT_MEASURED
    assert "schedstat" in line.found


def test_a_device_without_deadlines_does_not_lower_the_stolen_share() -> None:
    free = trained(2, device="host", asked=0.0, obtained=99.0, checks=0, use=Use(cpu=99.0, waited=0.0, stolen=0.0))
    assert judged("stolen CPU", [stolen(0.5), free], spec(), spec("host", 1, throttle="none")).verdict == FAIL


# ---- link delay


@pytest.mark.parametrize(
    ("asked", "late", "verdict"),
    [
        (0.0, 0.0, PASS),
        (0.0, 0.002, PASS),
        (0.0, 0.002 + A_BIT, WARN),
        (0.0, 0.01, WARN),
        (0.0, 0.01 + A_BIT, FAIL),
        (1.0, 0.02 - A_BIT, PASS),
        (1.0, 0.02 + A_BIT, WARN),
        (1.0, 0.10 - A_BIT, WARN),
        (1.0, 0.10 + A_BIT, FAIL),
        (0.05, 0.0019, PASS),  # 2 % would be 1 ms
    ],
)
def test_a_transfer_may_be_2_ms_or_2_percent_late(asked: float, late: float, verdict: str) -> None:
    events = [uploaded(sent=0.0, asked=asked), arrived(at=asked + late)]
    line = judged("link delay", events, spec(up=Direction()))
    assert (line.verdict, line.worst) == (verdict, "a")
    assert line.figures["max_s"] == pytest.approx(late, abs=1e-12)


def test_one_transfer_in_a_hundred_may_be_very_late() -> None:
    def many(late_ones: int) -> list[Event]:
        events: list[Event] = []
        for n in range(100):
            events += [uploaded(n + 1, sent=0.0), arrived(n + 1, at=UP + (9.0 if n < late_ones else 0.0))]
        return events

    assert judged("link delay", many(1)).verdict == PASS
    assert judged("link delay", many(2)).verdict == FAIL
    assert judged("link delay", many(1)).figures["max_s"] == 9.0


def test_the_device_with_the_latest_delivery_is_named() -> None:
    events = [uploaded(1), arrived(1), uploaded(2, device="b"), arrived(2, at=2.0, device="b")]
    assert judged("link delay", events, spec(), spec("b", 1)).worst == "b"


@pytest.mark.parametrize("events", [[], [uploaded(dropped=True)]], ids=["nothing", "all lost"])
def test_link_delay_is_not_measured_where_nothing_was_delivered(events: list[Event]) -> None:
    assert judged("link delay", events).verdict == NOT_MEASURED


# ---- link rate

RATED = spec(up=Direction(mbit=1.0))


def window(ticket: int, error: float, asked: float = 1.0) -> list[Event]:
    """An upload whose rate is off by so much."""
    return [uploaded(ticket, sent=0.0, asked=asked), arrived(ticket, at=asked / (1 + error))]


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (0.0, PASS),
        (0.02 - A_BIT, PASS),
        (0.02 + A_BIT, WARN),
        (0.05 - A_BIT, WARN),
        (0.05 + A_BIT, FAIL),
        (-0.02 + A_BIT, PASS),
        (-0.02 - A_BIT, WARN),
        (-0.06, FAIL),
    ],
)
def test_the_median_of_the_rates_may_be_2_percent_off(error: float, verdict: str) -> None:
    assert judged("link rate", window(1, error), RATED).verdict == verdict


@pytest.mark.parametrize(
    ("error", "verdict"), [(0.05 - A_BIT, PASS), (0.05 + A_BIT, WARN), (0.10 - A_BIT, WARN), (0.10 + A_BIT, FAIL)]
)
def test_the_p99_of_the_rates_may_be_5_percent_off(error: float, verdict: str) -> None:
    events = [*window(1, 0.0), *window(2, error), *window(3, 0.0)]
    line = judged("link rate", events, RATED)
    assert (line.verdict, line.figures["p50"], line.figures["windows"]) == (verdict, 0.0, 3)


def test_transfers_are_judged_in_windows_of_a_second() -> None:
    late, early = window(1, 1 / 0.75 - 1, 0.5), window(2, 1 / 1.25 - 1, 0.5)  # a third too fast, a fifth too slow
    assert judged("link rate", [*late, *early], RATED).figures["p99"] == pytest.approx(1 / (0.375 + 0.625) - 1)
    assert judged("link rate", late, RATED).verdict == NOT_MEASURED


def test_a_downlink_is_judged_by_its_own_rate() -> None:
    slow = [downloaded(sent=0.0, asked=1.0, obtained=2.0), trained(checks=0)]
    assert judged("link rate", slow, spec(down=Direction(mbit=1.0))).verdict == FAIL
    assert judged("link rate", slow, RATED).verdict == NOT_MEASURED


def test_the_device_with_the_worst_rate_is_named() -> None:
    other = [replace(event, device="b") for event in window(2, 0.5)]
    line = judged("link rate", [*window(1, 0.0), *other], RATED, spec("b", 1, up=Direction(mbit=1.0)))
    assert (line.worst, line.verdict) == ("b", FAIL)


def test_a_link_without_a_rate_is_not_judged() -> None:
    line = judged("link rate", window(1, 9.0))
    assert line.verdict == NOT_MEASURED
    assert "every byte that was sent arrived" in line.found


@pytest.mark.parametrize("device", [spec(), RATED], ids=["no rate", "rate"])
@pytest.mark.parametrize(
    "events",
    [
        [uploaded(1, sent=0.0, asked=1.0), arrived(1, at=1.0, bytes=399)],
        [*window(1, 0.0), dispatched(2), uploaded(2), stopped(in_flight=1)],
    ],
    ids=["another size", "never arrived"],
)
def test_a_missing_byte_fails_with_any_rate(events: list[Event], device: DeviceSpec) -> None:
    line = judged("link rate", events, device)
    assert (line.verdict, line.figures["bytes_wrong"]) == (FAIL, 1)


# ---- loss

LOSSY = spec(up=Direction(drop=0.5))


def uploads(dropped: Sequence[bool], device: str = "a", first: int = 1) -> list[Event]:
    events: list[Event] = []
    for job, lost in enumerate(dropped):
        events.append(uploaded(first + job, job=job, dropped=lost, device=device))
        if not lost:
            events.append(arrived(first + job, device=device))
    return events


FATES = [timetable(LOSSY, 7).upload(job, 0).dropped for job in range(40)]


def test_drops_by_the_timetable_pass() -> None:
    line = judged("loss", [header(), *uploads(FATES)], LOSSY)
    assert line.verdict == PASS
    assert (line.figures["lost"], line.figures["transfers"]) == (sum(FATES), 40)
    assert 0 < sum(FATES) < 40


@pytest.mark.parametrize("flipped", [0, 17, 39])
def test_one_flipped_drop_is_found(flipped: int) -> None:
    fates = [lost != (job == flipped) for job, lost in enumerate(FATES)]
    line = judged("loss", [header(), *uploads(fates)], LOSSY)
    assert (line.verdict, line.figures["against_timetable"], line.figures["implausible"]) == (FAIL, 1, 0)


def test_the_timetable_of_another_seed_is_another() -> None:
    assert judged("loss", [header(seed=8), *uploads(FATES)], LOSSY).verdict == FAIL


def test_the_timetable_of_downloads_and_of_later_attempts_counts_too() -> None:
    lossy = spec(down=Direction(drop=0.5))
    fates = [timetable(lossy, 7).download(0, attempt).dropped for attempt in range(20)]
    events = [downloaded(attempt=attempt, dropped=lost) for attempt, lost in enumerate(fates) if lost]
    assert judged("loss", [header(), *events[:3]], lossy).figures["against_timetable"] == 0
    moved = [replace(event, attempt=event.attempt + 20) for event in events]
    expected = sum(not timetable(lossy, 7).download(0, event.attempt).dropped for event in moved)
    assert judged("loss", [header(), *moved], lossy).figures["against_timetable"] == expected


@pytest.mark.parametrize(
    ("drops", "implausible"),
    [(0, 1), (1, 0), (5, 0), (9, 0), (10, 1)],  # of ten at ½: P(X ≤ 0) = 1/1024, P(X ≤ 1) = 11/1024; limit 0.005
)
def test_the_binomial_interval_of_ten_transfers_is_as_calculated_by_hand(drops: int, implausible: int) -> None:
    line = judged("loss", [header(), *uploads([job < drops for job in range(10)])], LOSSY)
    assert line.figures["implausible"] == implausible


def test_scripted_losses_follow_the_timetable() -> None:
    """Uploads of a good link are lost with ½ from the tenth second to the twentieth: one a second."""
    event = ScriptedEvent(at=10.0, device="a", do="drop", seconds=10.0, value=0.5)
    shaky = spec(script=(event,))
    chances = [timetable(shaky, 7).upload(job, 0).chance for job in range(40)]
    lost = [10 <= job < 20 and (chance or 0.0) < 0.5 for job, chance in enumerate(chances)]
    events = [replace(each, sent=float(each.job)) for each in uploads(lost) if isinstance(each, trace.Uploaded)]
    assert 0 < sum(lost) < 10
    line = judged("loss", [header(), *events, *(arrived(1 + job) for job in range(40) if not lost[job])], shaky)
    assert (line.verdict, line.figures["lost"], line.figures["transfers"]) == (PASS, sum(lost), 40)
    line = judged("loss", [header(), *events, *(arrived(1 + job) for job in range(40) if not lost[job])], spec())
    assert (line.verdict, line.figures["against_timetable"]) == (FAIL, sum(lost))


def test_a_link_that_loses_far_too_much_is_named() -> None:
    quiet, loud = spec("quiet", 0, up=Direction(drop=0.05)), spec("loud", 1, up=Direction(drop=0.05))
    events = [*uploads([False] * 40, "quiet"), *uploads([job < 20 for job in range(40)], "loud", 41)]
    line = judged("loss", [header(), *events], quiet, loud)
    assert (line.verdict, line.worst, line.figures["implausible"]) == (FAIL, "loud", 1)


def test_with_more_links_the_interval_of_each_is_wider() -> None:
    # at ½, P(X ≤ 2 of 15) = 121/32768 = 0.0037: below 0.01 ÷ 2, above 0.01 ÷ 2 ÷ 2
    strange, usual = uploads([job < 2 for job in range(15)]), uploads([job < 7 for job in range(15)], "b", 16)
    both = LOSSY, spec("b", 1, up=Direction(drop=0.5))
    assert judged("loss", [header(), *strange], *both).figures["implausible"] == 1
    assert judged("loss", [header(), *strange, *usual], *both).figures["implausible"] == 0


def test_a_timetable_that_is_itself_implausible_fails() -> None:
    def all_lost(seed: int) -> bool:
        return all(timetable(LOSSY, seed).upload(job, 0).dropped for job in range(8))

    unlucky = next(seed for seed in itertools.count() if all_lost(seed))
    line = judged("loss", [header(seed=unlucky), *uploads([True] * 8)], LOSSY)
    assert (line.verdict, line.figures["against_timetable"], line.figures["implausible"]) == (FAIL, 0, 1)


def test_a_loss_on_a_link_without_losses_fails() -> None:
    line = judged("loss", [header(), *uploads([True])])
    assert (line.verdict, line.figures["against_timetable"], line.figures["implausible"]) == (FAIL, 1, 1)


def test_loss_is_not_measured_where_nothing_was_sent() -> None:
    assert judged("loss", [header()]).verdict == NOT_MEASURED


# ---- causality


@pytest.mark.parametrize(("early", "verdict"), [(0.0, PASS), (0.5e-6, PASS), (2e-6, FAIL), (UP, FAIL), (9.0, FAIL)])
def test_nothing_is_delivered_before_it_was_sent_and_the_base_delay_is_over(early: float, verdict: str) -> None:
    line = judged("causality", [uploaded(sent=10.0), arrived(at=10.0 + UP - early)])
    assert (line.verdict, line.worst) == (verdict, "a" if verdict == FAIL else None)


@pytest.mark.parametrize("early", ["handled", "t"])
def test_a_message_that_was_handled_before_it_was_due_is_too_early(early: str) -> None:
    events = [
        replace(event, **{early: event.t - 0.01}) if isinstance(event, trace.Arrived | trace.Downloaded) else event
        for event in round_trip()
        if early != "handled" or not isinstance(event, trace.Downloaded)
    ]
    assert judged("causality", events).verdict == FAIL


def test_a_download_without_its_base_delay_is_too_early() -> None:
    line = judged("causality", [downloaded(asked=0.1, obtained=0.1), trained()])
    assert (line.verdict, line.figures["early"]) == (FAIL, 1)


def test_a_download_that_began_before_it_was_sent_is_too_early() -> None:
    line = judged("causality", [dispatched(at=1.0), downloaded(sent=0.5)])
    assert (line.verdict, line.figures["early"]) == (FAIL, 1)


def test_updates_of_a_device_out_of_order_break_causality() -> None:
    events = [uploaded(1), uploaded(2), arrived(2), arrived(1)]
    assert judged("causality", events).figures["out_of_order"] == 1
    assert judged("causality", events).verdict == FAIL


# ---- aggregator


@pytest.mark.parametrize(
    ("busy", "verdict"), [(0.0, PASS), (0.5, PASS), (0.5 + A_BIT, WARN), (0.8, WARN), (0.8 + A_BIT, FAIL)]
)
def test_the_aggregator_may_be_busy_half_of_the_time(busy: float, verdict: str) -> None:
    assert judged("aggregator", [header(), load(busy=busy)]).verdict == verdict


@pytest.mark.parametrize(
    ("service", "verdict"), [(0.125, PASS), (0.125 + A_BIT, WARN), (0.2, WARN), (0.2 + A_BIT, FAIL)]
)
def test_an_update_may_take_half_of_the_shortest_delay(service: float, verdict: str) -> None:
    # the shorter of the two delays is that of the downlink, 0.25 s
    assert judged("aggregator", [header(), load(served=1, service=service)]).verdict == verdict


@pytest.mark.parametrize(("service", "verdict"), [(0.001, PASS), (0.001 + A_BIT, WARN), (0.0016 + A_BIT, FAIL)])
def test_the_shortest_delay_is_at_least_2_ms(service: float, verdict: str) -> None:
    direct = spec(up=Direction(), down=Direction())
    assert judged("aggregator", [header(), load(served=1, service=service)], direct).verdict == verdict


def test_dilation_gives_the_aggregator_more_time() -> None:
    slow = load(served=1, service=0.25)
    assert judged("aggregator", [header(dilation=1.0), slow]).verdict == FAIL
    assert judged("aggregator", [header(dilation=2.0), slow]).verdict == PASS


def test_stretches_of_load_are_weighted_by_their_length() -> None:
    line = judged("aggregator", [header(), load(span=3.0, busy=0.0), load(busy=1.0, longest=0.5)])
    assert (line.figures["busy"], line.figures["longest_host_s"]) == (0.25, 0.5)


def test_an_aggregator_without_updates_has_no_service_time() -> None:
    line = judged("aggregator", [header(), load(served=0, service=0.0)])
    assert (line.verdict, line.figures["service_host_s"]) == (PASS, 0.0)


def test_without_loads_the_aggregator_is_not_measured() -> None:
    assert judged("aggregator", [header()]).verdict == NOT_MEASURED
    assert judged("aggregator", [header(), load(span=0.0)]).verdict == NOT_MEASURED


# ---- canary


@pytest.mark.parametrize(
    ("obtained", "verdict"),
    [(0.5, PASS), (1.02 - A_BIT, PASS), (1.02 + A_BIT, WARN), (1.05 - A_BIT, WARN), (1.05 + A_BIT, FAIL)],
)
def test_a_step_may_take_2_percent_longer_during_the_run(obtained: float, verdict: str) -> None:
    assert judged("canary", [canary(obtained)]).verdict == verdict


def test_a_step_that_took_exactly_2_percent_longer_passes() -> None:
    assert judged("canary", [canary(1.02)]).verdict == PASS


def test_the_samples_of_a_core_are_averaged_and_the_worst_core_counts() -> None:
    line = judged("canary", [canary(1.0), canary(1.5), canary(1.125, core=3)])
    assert (line.figures["slower"], line.figures["core"], line.figures["samples"]) == (0.25, 1, 3)


def test_without_samples_the_canary_is_not_measured() -> None:
    assert judged("canary", [header()]).verdict == NOT_MEASURED


# ---- admission


@pytest.mark.parametrize(
    ("demand", "pressure", "verdict"),
    [
        (0.8, 0.0, PASS),
        (0.8 + A_BIT, 0.0, WARN),
        (1.0, 0.0, WARN),
        (1.0 + A_BIT, 0.0, FAIL),
        (0.1, 0.10, PASS),
        (0.1, 0.10 + A_BIT, WARN),
        (0.1, 0.30, WARN),
        (0.1, 0.30 + A_BIT, FAIL),
        (0.8, None, PASS),
        (0.9, None, WARN),
        (0.9, 0.5, FAIL),
    ],
)
def test_a_run_may_ask_for_four_fifths_of_a_core_on_a_calm_host(
    demand: float, pressure: float | None, verdict: str
) -> None:
    line = judged("admission", [header(demand=demand, pressure=pressure)])
    assert (line.verdict, line.figures["demand"], line.figures["pressure"]) == (verdict, demand, pressure)
    assert ("not measured" in line.found) == (pressure is None)


def test_pressure_during_the_run_is_reported_and_not_judged() -> None:
    line = judged("admission", [header(), load(pressure=None), load(pressure=0.9), load(pressure=0.2)])
    assert (line.verdict, line.figures["pressure_in_run"]) == (PASS, 0.9)


def test_a_run_that_did_not_begin_was_not_admitted() -> None:
    assert judged("admission", []).verdict == NOT_MEASURED


def test_admission_says_how_old_a_remembered_survey_was() -> None:
    line = judged("admission", [header(survey_age=730.0)])
    assert "by a survey remembered for 12 min" in line.found
    assert line.figures["survey_age_s"] == 730.0
    assert "remembered" not in judged("admission", [header(survey_age=0.0)]).found


# ---- conservation


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        ([dispatched(1), aggregated(1), stopped()], PASS),
        ([dispatched(1), dispatched(2), aggregated(1), stopped(in_flight=1)], PASS),
        ([stopped()], PASS),
        ([dispatched(1), stopped()], FAIL),  # a lost ticket
        ([dispatched(1), aggregated(1), stopped(in_flight=1)], FAIL),
        ([dispatched(1), aggregated(1), trace.Superseded(t=2.0, device="a", ticket=1), stopped()], FAIL),
        # a ticket that ends twice hides a lost one: the balance is right, the accounts are not
        ([dispatched(1), dispatched(2), aggregated(1), aggregated(1), stopped()], FAIL),
        (
            [
                dispatched(1),
                dispatched(2),
                aggregated(1),
                trace.Lost(t=2.0, device="a", ticket=1, reason=""),
                stopped(),
            ],
            FAIL,
        ),
        ([dispatched(1), aggregated(1)], NOT_MEASURED),
    ],
)
def test_every_ticket_ended_once_or_is_in_flight(events: list[Event], verdict: str) -> None:
    assert judged("conservation", events).verdict == verdict


def test_tickets_that_are_unaccounted_for_are_counted() -> None:
    line = judged("conservation", [dispatched(1), dispatched(2), dispatched(3), aggregated(1), stopped(in_flight=1)])
    assert line.figures == {"dispatched": 3, "settled": 1, "in_flight": 1, "balance": 1}
    assert line.found == "3 dispatched = 1 settled + 1 in flight + 1 unaccounted for"


# ---- texts


@pytest.mark.parametrize("name", NAMES)
def test_every_line_that_was_measured_states_its_figures_and_limits(name: str) -> None:
    events = [*GOOD[:-1], *window(9, 0.0), stopped()]
    line = judged(name, events, spec(up=Direction(delay=UP, mbit=1.0)))
    assert line.verdict != NOT_MEASURED
    assert line.found
    assert line.limits
    assert line.figures
