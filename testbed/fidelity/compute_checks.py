"""Invariants about computing: deadlines of steps, waiting for a core, and the canary."""

from __future__ import annotations

from testbed.fidelity.measurements import Computed, Evidence
from testbed.fidelity.verdict import judge, not_measured
from testbed.runs.results.certificate import Invariant


def step_time(evidence: Evidence) -> Invariant:
    throttled = {name: device for name, device in evidence.computed.items() if device.asked > 0 or device.misses}
    if not throttled:
        return not_measured("step time", "no throttled device has computed a step")
    errors, checks = evidence.errors, sum(device.checks for device in throttled.values())
    p50, p95, p99 = 0.0, 0.0, 0.0
    if errors:  # checks without an error were on time
        p50, p95, p99 = errors.quantiles(0.5, 0.95, 0.99, zeros=max(0, checks - len(errors)))
    missed = sum(device.misses for device in throttled.values()) / max(1, checks)
    worst = max(throttled, key=lambda name: _off(throttled[name]))
    off = _off(throttled[worst])
    silent = evidence.stopped.silent if evidence.stopped is not None else []
    unheard = f"; {len(silent)} devices, such as {silent[0]}, sent no last report" if silent else ""
    return Invariant(
        name="step time",
        verdict=judge((p99, 0.05, 0.10), (missed, 0.01, 0.05), (off, 0.05, 0.10), (len(silent), 0, len(silent))),
        found=f"p99 {p99:.1%} off, {missed:.2%} of {checks} deadlines missed; round trips of {worst} {off:.1%} off"
        + unheard,
        figures={
            "p50": p50,
            "p95": p95,
            "p99": p99,
            "missed": missed,
            "deadlines": checks,
            "worst_round_trips": off,
            "silent": len(silent),
        },
        limits="p99 ≤ 5 %, missed ≤ 1 %, each device's round trips ≤ 5 % off (warn: 10, 5, 10 %), all devices reported",
        worst=worst,
    )


def _off(device: Computed) -> float:
    """Relative error of the sum of a device's round trips, by the aggregator's clock.

    A device without a complete round trip is judged by its missed deadlines.
    """
    if device.trips:
        return abs(device.trips_obtained / device.trips_asked - 1.0)
    return device.misses / max(1, device.checks)


def stolen(evidence: Evidence) -> Invariant:
    metered = {name: device for name, device in evidence.computed.items() if device.metered}
    if not metered:
        return not_measured("stolen CPU", "the kernel does not report how long processes waited (no schedstat)")
    critical = sum(device.critical for device in metered.values())
    if critical <= 0:
        return not_measured("stolen CPU", "no device had deadlines to keep")
    stolen = sum(device.stolen for device in metered.values()) / critical
    waited = sum(device.waited for device in metered.values()) / critical
    worst = max(metered, key=lambda name: metered[name].stolen / max(metered[name].critical, 1e-9))
    of_worst = metered[worst].stolen / max(metered[worst].critical, 1e-9)
    window = max(device.worst_job for device in metered.values())
    return Invariant(
        name="stolen CPU",
        verdict=judge((stolen, 0.02, 0.10)),
        found=f"waiting for a core missed deadlines for {stolen:.1%} of the time; {worst} {of_worst:.1%}",
        figures={"mean": stolen, "worst_job": window, "worst_device": of_worst, "waited": waited},
        limits="mean ≤ 2 % (warn: 10 %)",
        worst=worst,
    )


def canary(evidence: Evidence) -> Invariant:
    if not evidence.canaries:
        return not_measured("canary", "no device is paced, or the run was too short for a sample")
    slower = {core: found.slower / found.samples for core, found in evidence.canaries.items()}
    worst = max(slower, key=lambda core: slower[core])
    count = sum(found.samples for found in evidence.canaries.values())
    return Invariant(
        name="canary",
        verdict=judge((slower[worst], 0.02, 0.05)),
        found=f"a step took {slower[worst]:+.1%} longer during the run than alone (core {worst}, {count} samples)",
        figures={"slower": slower[worst], "core": worst, "samples": count},
        limits="≤ 2 % (warn: 5 %)",
    )
