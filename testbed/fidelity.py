"""The certificate of a run: was the emulated timing obtained? Ten invariants, each a function of the trace.

Times are emulated seconds unless a name says host. What the kernel does not tell is "not measured", never assumed.
docs/adr/0007 argues the readings of the table in which these limits were first written down.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.evidence import Computed, Delivery, Evidence, gather
from testbed.faults import timetable
from testbed.fleet import DeviceSpec
from testbed.planner import CAPACITY
from testbed.stats import is_plausible, quantile
from testbed.trace import Event

_SMALL_SECONDS = 0.002
"""Lateness that nobody holds against a link, however short."""
_LINK_SHARE = 0.02
_WINDOW_SECONDS = 1.0
_CLOCK_GRAIN = 1e-6
_CONFIDENCE = 0.99


class Verdict(enum.StrEnum):
    PASS = "PASS"  # noqa: S105  no password
    WARN = "WARN"
    FAIL = "FAIL"
    NOT_MEASURED = "not measured"


_SEVERITY = (Verdict.NOT_MEASURED, Verdict.PASS, Verdict.WARN, Verdict.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One line of the certificate."""

    name: str
    verdict: Verdict
    found: str
    """The figures, for people."""
    figures: dict[str, float | int | None] = field(default_factory=dict)
    limits: str = ""
    worst: str | None = None
    """The device that is furthest off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    verdict: Verdict
    dilation: float
    invariants: tuple[Invariant, ...]

    def of(self, verdict: Verdict) -> list[Invariant]:
        return [line for line in self.invariants if line.verdict is verdict]

    def as_table(self) -> dict[str, Any]:
        rows = [
            {
                "name": line.name, "verdict": line.verdict.value, "found": line.found, "limits": line.limits,
                "worst": line.worst, "figures": line.figures,
            }
            for line in self.invariants
        ]  # fmt: skip
        return {"verdict": self.verdict.value, "dilation": self.dilation, "invariants": rows}


def certify(events: Iterable[Event], devices: Sequence[DeviceSpec]) -> Certificate:
    """Judge a run by its trace and by what its devices were to be."""
    evidence = gather(events)
    specs = {device.name: device for device in devices}
    lines = (
        _step_time(evidence),
        _stolen(evidence),
        _link_delay(evidence),
        _link_rate(evidence, specs),
        _loss(evidence, specs),
        _causality(evidence, specs),
        _aggregator(evidence, devices),
        _canary(evidence),
        _admission(evidence),
        _conservation(evidence),
    )
    return Certificate(
        verdict=max((line.verdict for line in lines), key=_SEVERITY.index),
        dilation=evidence.header.dilation if evidence.header is not None else 1.0,
        invariants=lines,
    )


def _judge(*measured: tuple[float, float, float]) -> Verdict:
    """The worst of (value, largest that passes, largest that warns)."""
    verdicts = [
        Verdict.PASS if value <= passes else Verdict.WARN if value <= warns else Verdict.FAIL
        for value, passes, warns in measured
    ]
    return max(verdicts, key=_SEVERITY.index)


def _holds(condition: bool) -> Verdict:
    return Verdict.PASS if condition else Verdict.FAIL


def _not_measured(name: str, why: str) -> Invariant:
    return Invariant(name=name, verdict=Verdict.NOT_MEASURED, found=why)


# ---- computing


def _step_time(evidence: Evidence) -> Invariant:
    throttled = {name: device for name, device in evidence.computed.items() if device.asked > 0 or device.misses}
    if not throttled:
        return _not_measured("step time", "no throttled device has computed anything")
    errors = [error for device in throttled.values() for error in device.errors]
    checks = sum(device.checks for device in throttled.values())
    p50, p95, p99 = (_quantile_with_zeros(errors, checks, q) for q in (0.5, 0.95, 0.99))
    missed = sum(device.misses for device in throttled.values()) / max(1, checks)
    worst = max(throttled, key=lambda name: _off(throttled[name]))
    off = _off(throttled[worst])
    return Invariant(
        name="step time",
        verdict=_judge((p99, 0.05, 0.10), (missed, 0.01, 0.05), (off, 0.05, 0.10)),
        found=f"p99 {p99:.1%} off, {missed:.2%} of {checks} deadlines missed; round trips of {worst} {off:.1%} off",
        figures={"p50": p50, "p95": p95, "p99": p99, "missed": missed, "deadlines": checks, "worst_round_trips": off},
        limits="p99 ≤ 5 %, missed ≤ 1 %, any device's round trips ≤ 5 % off (warn: 10, 5, 10 %)",
        worst=worst,
    )


def _off(device: Computed) -> float:
    """How far a device's round trips were off, all together, as the aggregator saw them.

    A device that finished none is judged by its misses.
    """
    if device.trips:
        asked = sum(asked for asked, _ in device.trips)
        return abs(sum(obtained for _, obtained in device.trips) / asked - 1.0)
    return device.misses / max(1, device.checks)


def _quantile_with_zeros(errors: Sequence[float], count: int, q: float) -> float:
    """Of ``count`` values of which all that are not listed are zero."""
    zeros = max(0, count - len(errors))
    listed = len(errors)
    if not listed or q * (zeros + listed) <= zeros:
        return 0.0
    return quantile(errors, (q * (zeros + listed) - zeros) / listed)


def _stolen(evidence: Evidence) -> Invariant:
    metered = {name: device for name, device in evidence.computed.items() if device.metered}
    if not metered:
        return _not_measured("stolen CPU", "the kernel does not say how long processes waited (no schedstat)")

    def share(waits: float, cpu: float) -> float:
        return waits / (waits + cpu) if waits > 0 else 0.0

    cpu = sum(device.cpu for device in metered.values())
    stolen = share(sum(device.stolen for device in metered.values()), cpu)
    waited = share(sum(device.waited for device in metered.values()), cpu)
    worst = max(metered, key=lambda name: share(metered[name].stolen, metered[name].cpu))
    of_worst, window = share(metered[worst].stolen, metered[worst].cpu), max(d.worst_job for d in metered.values())
    return Invariant(
        name="stolen CPU",
        verdict=_judge((stolen, 0.02, 0.10)),
        found=f"{stolen:.1%} in steps that missed their deadline; {worst} {of_worst:.1%}, worst job {window:.1%}",
        figures={"mean": stolen, "worst_job": window, "worst_device": of_worst, "waited": waited},
        limits="mean ≤ 2 % (warn: 10 %)",
        worst=worst,
    )


# ---- links


def _link_delay(evidence: Evidence) -> Invariant:
    arrived = [delivery for delivery in evidence.deliveries if delivery.arrived is not None]
    if not arrived:
        return _not_measured("link delay", "nothing was delivered")
    late = [delivery.late for delivery in arrived]
    scores = [_lateness(delivery) for delivery in arrived]
    score, p50, p99 = quantile(scores, 0.99), quantile(late, 0.5), quantile(late, 0.99)
    worst = max(arrived, key=_lateness)
    return Invariant(
        name="link delay",
        verdict=_judge((score, 1.0, 5.0)),
        found=f"p50 {p50 * 1e3:.2f} ms late, p99 {p99 * 1e3:.2f} ms, at most {max(late) * 1e3:.1f} ms",
        figures={
            "p50_s": p50,
            "p99_s": p99,
            "max_s": max(late),
            "p99_of_tolerance": score,
            "deliveries": len(late),
            "pickup_p99_s": quantile(evidence.pickups, 0.99) if evidence.pickups else None,
        },
        limits="p99 ≤ max(2 ms, 2 % of the delay) (warn: 10 ms, 10 %)",
        worst=worst.device,
    )


def _lateness(delivery: Delivery) -> float:
    """In units of what is tolerated."""
    return delivery.late / max(_SMALL_SECONDS, _LINK_SHARE * delivery.asked)


def _link_rate(evidence: Evidence, specs: dict[str, DeviceSpec]) -> Invariant:
    """Transfers of one direction of a device, one after the other until they should have taken a second."""
    windows: dict[tuple[str, bool], list[tuple[float, float]]] = defaultdict(lambda: [(0.0, 0.0)])
    for delivery in evidence.deliveries:
        spec = specs[delivery.device]
        if delivery.arrived is None or (spec.up if delivery.up else spec.down).mbit is None:
            continue
        window = windows[delivery.device, delivery.up]
        asked, obtained = window[-1]
        window[-1] = (asked + delivery.asked, obtained + delivery.arrived - delivery.sent)
        if window[-1][0] >= _WINDOW_SECONDS:
            window.append((0.0, 0.0))
    conserved = evidence.bytes_wrong == 0
    whole = "every byte that was sent arrived" if conserved else f"{evidence.bytes_wrong} updates changed their size"
    limits = "median ≤ 2 %, p99 ≤ 5 % (warn: 5, 10 %); bytes conserved"
    errors = {
        key: [abs(asked / obtained - 1.0) for asked, obtained in window if asked >= _WINDOW_SECONDS and obtained > 0]
        for key, window in windows.items()
    }
    listed = [error for values in errors.values() for error in values]
    if not listed:
        return Invariant(
            name="link rate", verdict=Verdict.NOT_MEASURED if conserved else Verdict.FAIL, limits=limits,
            found=f"no link with a rate was busy for a second; {whole}",
            figures={"bytes_wrong": evidence.bytes_wrong},
        )  # fmt: skip
    median, p99 = quantile(listed, 0.5), quantile(listed, 0.99)
    worst = max((key for key in errors if errors[key]), key=lambda key: max(errors[key]))
    return Invariant(
        name="link rate",
        verdict=max(_judge((median, 0.02, 0.05), (p99, 0.05, 0.10)), _holds(conserved), key=_SEVERITY.index),
        found=f"median {median:.1%} off, p99 {p99:.1%}, in {len(listed)} windows; {whole}",
        figures={"p50": median, "p99": p99, "windows": len(listed), "bytes_wrong": evidence.bytes_wrong},
        limits=limits,
        worst=worst[0],
    )


def _loss(evidence: Evidence, specs: dict[str, DeviceSpec]) -> Invariant:
    seed = evidence.header.seed if evidence.header is not None else 0
    tables = {name: timetable(spec, seed) for name, spec in specs.items()}
    counts: dict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0])
    wrong = 0
    for delivery in evidence.deliveries:
        table = tables[delivery.device]
        fate = (table.upload if delivery.up else table.download)(delivery.job, delivery.attempt)
        wrong += fate.dropped != delivery.dropped
        counts[delivery.device, delivery.up][0] += delivery.dropped
        counts[delivery.device, delivery.up][1] += 1
    if not counts:
        return _not_measured("loss", "nothing was sent")
    # one interval for each link and direction: all together hold with the confidence that is promised
    confidence = 1.0 - (1.0 - _CONFIDENCE) / len(counts)
    unlikely = [
        device
        for (device, up), (drops, sent) in counts.items()
        if not is_plausible(drops, sent, (specs[device].up if up else specs[device].down).drop, confidence)
    ]
    drops, sent = (sum(column) for column in zip(*counts.values(), strict=True))
    return Invariant(
        name="loss",
        verdict=_holds(wrong == 0 and not unlikely),
        found=f"{drops} of {sent} transfers lost; {wrong} not by the timetable, {len(unlikely)} links implausible",
        figures={"lost": drops, "transfers": sent, "against_timetable": wrong, "implausible": len(unlikely)},
        limits="as the timetable has it, and in the 99 % binomial interval",
        worst=unlikely[0] if unlikely else None,
    )


def _causality(evidence: Evidence, specs: dict[str, DeviceSpec]) -> Invariant:
    early = [
        delivery.device
        for delivery in evidence.deliveries
        if delivery.arrived is not None
        and delivery.arrived - delivery.sent + _CLOCK_GRAIN
        < (specs[delivery.device].up if delivery.up else specs[delivery.device].down).delay
    ]
    violations = len(early) + evidence.too_early + evidence.out_of_order
    return Invariant(
        name="causality",
        verdict=_holds(violations == 0),
        found=f"{len(early) + evidence.too_early} deliveries too early, {evidence.out_of_order} out of order",
        figures={"early": len(early) + evidence.too_early, "out_of_order": evidence.out_of_order},
        limits="none before sent + base delay, none out of order",
        worst=early[0] if early else None,
    )


# ---- the host


def _aggregator(evidence: Evidence, devices: Sequence[DeviceSpec]) -> Invariant:
    span = sum(load.span for load in evidence.loads)
    if span <= 0:
        return _not_measured("aggregator", "the run ended before the aggregator had measured itself")
    dilation = evidence.header.dilation if evidence.header is not None else 1.0
    busy = sum(load.busy for load in evidence.loads) / span
    served = sum(load.served for load in evidence.loads)
    service = sum(load.service for load in evidence.loads) / served if served else 0.0
    shortest = min((link.delay for device in devices for link in (device.up, device.down)), default=0.0)
    share = service / dilation / max(shortest, _SMALL_SECONDS)
    longest = max(load.longest for load in evidence.loads)
    return Invariant(
        name="aggregator",
        verdict=_judge((busy, 0.5, 0.8), (share, 0.5, 0.8)),
        found=f"busy {busy:.0%}; {service * 1e3:.2f} ms for an update, {share:.0%} of the shortest delay that counts",
        figures={"busy": busy, "service_host_s": service, "of_shortest_delay": share, "longest_host_s": longest},
        limits="busy ≤ 50 %, an update ≤ 50 % of max(shortest link delay, 2 ms) (warn: 80 %)",
    )


def _canary(evidence: Evidence) -> Invariant:
    if not evidence.canaries:
        return _not_measured("canary", "no device is paced, or the run was too short for a note")
    by_core: dict[int, list[float]] = defaultdict(list)
    for note in evidence.canaries:
        by_core[note.core].append(note.obtained / note.alone - 1.0)
    slower = {core: sum(notes) / len(notes) for core, notes in by_core.items()}
    worst = max(slower, key=lambda core: slower[core])
    count = len(evidence.canaries)
    return Invariant(
        name="canary",
        verdict=_judge((slower[worst], 0.02, 0.05)),
        found=f"a step took {slower[worst]:+.1%} longer in company than alone (core {worst}, {count} notes)",
        figures={"slower": slower[worst], "core": worst, "notes": count},
        limits="≤ 2 % (warn: 5 %)",
    )


def _admission(evidence: Evidence) -> Invariant:
    header = evidence.header
    if header is None:
        return _not_measured("admission", "the run did not begin")
    measured = [(header.demand, CAPACITY, 1.0)]
    pressure = "host pressure not measured"
    if header.pressure is not None:
        measured.append((header.pressure, 0.10, 0.30))
        pressure = f"somebody waited {header.pressure:.0%} of the time before the run"
    during = [load.pressure for load in evidence.loads if load.pressure is not None]
    return Invariant(
        name="admission",
        verdict=_judge(*measured),
        found=f"{header.demand:.2f} of a core asked for; {pressure}",
        figures={"demand": header.demand, "pressure": header.pressure, "pressure_in_run": max(during, default=None)},
        limits="demand ≤ 0.8, pressure ≤ 10 % (warn: 1.0, 30 %)",
    )


def _conservation(evidence: Evidence) -> Invariant:
    if evidence.stopped is None:
        return _not_measured("conservation", "the aggregator ended early")
    settled, flying = sum(evidence.settled.values()), evidence.stopped.in_flight
    balance = evidence.dispatched - settled - flying
    return Invariant(
        name="conservation",
        verdict=_holds(balance == 0 and evidence.settled_twice == 0),
        found=f"{evidence.dispatched} dispatched = {settled} settled + {flying} in flight"
        + (f" + {balance} unaccounted for" if balance else ""),
        figures={"dispatched": evidence.dispatched, "settled": settled, "in_flight": flying, "balance": balance},
        limits="exact",
    )
