"""Invariants about the run itself: load of the aggregator, admission, and the balance of tickets."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.fidelity.link_evidence import SMALL_SECONDS
from testbed.fidelity.measurements import Evidence
from testbed.fidelity.verdict import holds, judge, not_measured
from testbed.planning.planner import CAPACITY
from testbed.profile.fleet import DeviceSpec
from testbed.runs.results.certificate import Invariant


def aggregator(evidence: Evidence, devices: Sequence[DeviceSpec]) -> Invariant:
    load = evidence.load
    if load.span <= 0:
        return not_measured("aggregator", "the run ended before the aggregator measured its load")
    dilation = evidence.header.dilation if evidence.header is not None else 1.0
    busy = load.busy / load.span
    service = load.service / load.served if load.served else 0.0
    shortest = min((link.delay for device in devices for link in (device.up, device.down)), default=0.0)
    share = service / dilation / max(shortest, SMALL_SECONDS)
    return Invariant(
        name="aggregator",
        verdict=judge((busy, 0.5, 0.8), (share, 0.5, 0.8)),
        found=f"busy {busy:.0%}; {service * 1e3:.2f} ms for an update, {share:.0%} of the shortest relevant delay",
        figures={"busy": busy, "service_host_s": service, "of_shortest_delay": share, "longest_host_s": load.longest},
        limits="busy ≤ 50 %, an update ≤ 50 % of max(shortest link delay, 2 ms) (warn: 80 %)",
    )


def admission(evidence: Evidence) -> Invariant:
    header = evidence.header
    if header is None:
        return not_measured("admission", "the run did not begin")
    measured = [(header.demand, CAPACITY, 1.0)]
    pressure = "host pressure not measured"
    if header.pressure is not None:
        measured.append((header.pressure, 0.10, 0.30))
        pressure = f"a process waited for a core {header.pressure:.0%} of the time before the run"
    return Invariant(
        name="admission",
        verdict=judge(*measured),
        found=f"demand: {header.demand:.2f} of a core{_age(header.survey_age)}; {pressure}",
        figures={
            "demand": header.demand,
            "pressure": header.pressure,
            "pressure_in_run": evidence.load.pressure,
            **({} if header.survey_age is None else {"survey_age_s": header.survey_age}),  # earlier traces: not known
        },
        limits="demand ≤ 0.8, pressure ≤ 10 % (warn: 1.0, 30 %)",
    )


def _age(seconds: float | None) -> str:
    """Return how old a remembered survey was; nothing for one that was made for the run."""
    return f" by a survey remembered for {seconds / 60:.0f} min" if seconds else ""


def conservation(evidence: Evidence) -> Invariant:
    if evidence.stopped is None:
        return not_measured("conservation", "the aggregator ended early")
    settled, flying = sum(evidence.settled.values()), evidence.stopped.in_flight
    balance = evidence.dispatched - settled - flying
    return Invariant(
        name="conservation",
        verdict=holds(balance == 0 and evidence.settled_twice == 0),
        found=f"{evidence.dispatched} dispatched = {settled} settled + {flying} in flight"
        + (f" + {balance} unaccounted for" if balance else ""),
        figures={"dispatched": evidence.dispatched, "settled": settled, "in_flight": flying, "balance": balance},
        limits="exact",
    )
