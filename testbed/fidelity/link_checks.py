"""Invariants about links: delay, rate, loss and causality."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from testbed.common.stats import is_plausible, quantile
from testbed.emulation.faults import scripted, timetable
from testbed.fidelity.measurements import Delivery, Evidence
from testbed.fidelity.verdict import SEVERITY, holds, judge, not_measured
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Direction
from testbed.profile.script import drop_at
from testbed.runs.results.certificate import Invariant, Verdict

SMALL_SECONDS = 0.002
"""Lateness that is tolerated on every link, however short its delay."""
_LINK_SHARE = 0.02
_WINDOW_SECONDS = 1.0
_CONFIDENCE = 0.99


def link_delay(evidence: Evidence) -> Invariant:
    arrived = [delivery for delivery in evidence.deliveries if delivery.arrived is not None]
    if not arrived:
        return not_measured("link delay", "nothing was delivered")
    late = [delivery.late for delivery in arrived]
    scores = [seconds / _tolerated(delivery) for delivery, seconds in zip(arrived, late, strict=True)]
    score, p50, p99 = quantile(scores, 0.99), quantile(late, 0.5), quantile(late, 0.99)
    worst = arrived[scores.index(max(scores))]
    return Invariant(
        name="link delay",
        verdict=judge((score, 1.0, 5.0)),
        found=f"p50 {p50 * 1e3:.2f} ms late, p99 {p99 * 1e3:.2f} ms, at most {max(late) * 1e3:.1f} ms",
        figures={
            "p50_s": p50,
            "p99_s": p99,
            "max_s": max(late),
            "p99_of_tolerance": score,
            "deliveries": len(late),
            "pickup_p99_s": quantile(evidence.pickups, 0.99) if evidence.pickups else None,
            "handled_p99_s": quantile(evidence.handled, 0.99) if evidence.handled else None,
        },
        limits="p99 ≤ max(2 ms, 2 % of the delay) (warn: 10 ms, 10 %)",
        worst=worst.device,
    )


def _tolerated(delivery: Delivery) -> float:
    """Seconds that a delivery may be late."""
    return max(SMALL_SECONDS, _LINK_SHARE * (delivery.asked - delivery.absent))


def link_rate(evidence: Evidence, specs: dict[str, DeviceSpec]) -> Invariant:
    conserved = evidence.bytes_wrong == 0
    whole = (
        "every byte that was sent arrived"
        if conserved
        else f"{evidence.bytes_wrong} updates did not arrive or changed their size"
    )
    limits = "median ≤ 2 %, p99 ≤ 5 % (warn: 5, 10 %); bytes conserved"
    errors = _rate_errors(evidence, specs)
    listed = [error for values in errors.values() for error in values]
    if not listed:
        return Invariant(
            name="link rate",
            verdict=Verdict.NOT_MEASURED if conserved else Verdict.FAIL,
            limits=limits,
            found=f"no link with a rate was busy for a second; {whole}",
            figures={"bytes_wrong": evidence.bytes_wrong},
        )
    median, p99 = quantile(listed, 0.5), quantile(listed, 0.99)
    worst = max((key for key in errors if errors[key]), key=lambda key: max(errors[key]))
    return Invariant(
        name="link rate",
        verdict=max(judge((median, 0.02, 0.05), (p99, 0.05, 0.10)), holds(conserved), key=SEVERITY.index),
        found=f"median {median:.1%} off, p99 {p99:.1%}, in {len(listed)} windows; {whole}",
        figures={"p50": median, "p99": p99, "windows": len(listed), "bytes_wrong": evidence.bytes_wrong},
        limits=limits,
        worst=worst[0],
    )


def _rate_errors(evidence: Evidence, specs: dict[str, DeviceSpec]) -> dict[tuple[str, bool], list[float]]:
    """Device and direction → relative errors of windows: successive transfers that should take a second together."""
    windows: dict[tuple[str, bool], list[tuple[float, float]]] = defaultdict(lambda: [(0.0, 0.0)])
    for delivery in evidence.deliveries:
        spec = specs[delivery.device]
        if delivery.arrived is None or not _direction(spec, up=delivery.up).has_rate:
            continue
        window = windows[delivery.device, delivery.up]
        asked, obtained = window[-1]
        absent = delivery.absent
        window[-1] = (asked + delivery.asked - absent, obtained + delivery.arrived - delivery.sent - absent)
        if window[-1][0] >= _WINDOW_SECONDS:
            window.append((0.0, 0.0))
    return {
        key: [abs(asked / obtained - 1.0) for asked, obtained in window if asked >= _WINDOW_SECONDS and obtained > 0]
        for key, window in windows.items()
    }


def loss(evidence: Evidence, specs: dict[str, DeviceSpec]) -> Invariant:
    if evidence.header is not None and evidence.header.replay:
        return not_measured("loss", "a replay repeats the recorded losses; replay.json compares them")
    seed = evidence.header.seed if evidence.header is not None else 0
    tables = {name: timetable(spec, seed) for name, spec in specs.items()}
    counts: dict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0])
    chances: dict[tuple[str, bool], list[float]] = defaultdict(list)
    wrong = 0
    for delivery in evidence.deliveries:
        link, spec = (delivery.device, delivery.up), specs[delivery.device]
        table, drop = tables[delivery.device], None
        fate = (table.upload if delivery.up else table.download)(delivery.job, delivery.attempt)
        if spec.script:
            fate, drop = scripted(fate, spec.script, delivery.sent), drop_at(spec.script, delivery.sent)
        wrong += fate.dropped != delivery.dropped
        counts[link][0] += delivery.dropped
        counts[link][1] += 1
        chances[link].append(_direction(spec, up=delivery.up).drop if drop is None else drop)
    if not counts:
        return not_measured("loss", "nothing was sent")
    # Bonferroni: the intervals of all links and directions hold together with the stated confidence
    confidence = 1.0 - (1.0 - _CONFIDENCE) / len(counts)
    unlikely = [
        device
        for (device, up), (drops, sent) in counts.items()
        if not is_plausible(drops, sent, fmean(chances[device, up]), confidence)
    ]
    drops, sent = (sum(column) for column in zip(*counts.values(), strict=True))
    return Invariant(
        name="loss",
        verdict=holds(wrong == 0 and not unlikely),
        found=f"{drops} of {sent} transfers lost; {wrong} against the timetable, {len(unlikely)} implausible links",
        figures={"lost": drops, "transfers": sent, "against_timetable": wrong, "implausible": len(unlikely)},
        limits="exactly by the fault timetable, and within the 99 % binomial interval",
        worst=unlikely[0] if unlikely else None,
    )


def causality(evidence: Evidence, specs: dict[str, DeviceSpec]) -> Invariant:
    if not evidence.deliveries and not evidence.too_early:
        return not_measured("causality", "nothing was sent")
    # a replay follows the recorded link, not the one in the profile
    replayed = evidence.header is not None and bool(evidence.header.replay)
    early = [
        delivery.device
        for delivery in evidence.deliveries
        if delivery.is_early
        or (not replayed and delivery.asked < _direction(specs[delivery.device], up=delivery.up).delay)
    ]
    violations = len(early) + evidence.too_early + evidence.out_of_order
    return Invariant(
        name="causality",
        verdict=holds(violations == 0),
        found=f"{len(early) + evidence.too_early} deliveries too early, {evidence.out_of_order} out of order",
        figures={"early": len(early) + evidence.too_early, "out_of_order": evidence.out_of_order},
        limits="no message handled before it was due, none out of order",
        worst=early[0] if early else None,
    )


def _direction(spec: DeviceSpec, *, up: bool) -> Direction:
    return spec.up if up else spec.down
