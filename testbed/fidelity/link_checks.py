"""Invariants about links: delay, rate, loss and causality."""

from __future__ import annotations

from testbed.common.stats import is_plausible
from testbed.fidelity.link_evidence import LinkEvidence
from testbed.fidelity.measurements import Evidence
from testbed.fidelity.verdict import SEVERITY, holds, judge, not_measured
from testbed.runs.results.certificate import Invariant, Verdict

_CONFIDENCE = 0.99


def link_delay(evidence: Evidence, links: LinkEvidence) -> Invariant:
    if not links.late:
        return not_measured("link delay", "nothing was delivered")
    [score], (p50, p99) = links.late.quantiles(0.99, column=1), links.late.quantiles(0.5, 0.99)
    pickups, handled = evidence.pickups, evidence.handled
    return Invariant(
        name="link delay",
        verdict=judge((score, 1.0, 5.0)),
        found=f"p50 {p50 * 1e3:.2f} ms late, p99 {p99 * 1e3:.2f} ms, at most {links.latest * 1e3:.1f} ms",
        figures={
            "p50_s": p50,
            "p99_s": p99,
            "max_s": links.latest,
            "p99_of_tolerance": score,
            "deliveries": len(links.late),
            "pickup_p99_s": pickups.quantiles(0.99)[0] if pickups else None,
            "handled_p99_s": handled.quantiles(0.99)[0] if handled else None,
        },
        limits="p99 ≤ max(2 ms, 2 % of the delay) (warn: 10 ms, 10 %)",
        worst=links.worst,
    )


def link_rate(evidence: Evidence, links: LinkEvidence) -> Invariant:
    conserved = evidence.bytes_wrong == 0
    whole = (
        "every byte that was sent arrived"
        if conserved
        else f"{evidence.bytes_wrong} updates did not arrive or changed their size"
    )
    limits = "median ≤ 2 %, p99 ≤ 5 % (warn: 5, 10 %); bytes conserved"
    windows = len(links.rate_errors)
    if not windows:
        return Invariant(
            name="link rate",
            verdict=Verdict.NOT_MEASURED if conserved else Verdict.FAIL,
            limits=limits,
            found=f"no link with a rate was busy for a second; {whole}",
            figures={"bytes_wrong": evidence.bytes_wrong},
        )
    median, p99 = links.rate_errors.quantiles(0.5, 0.99)
    worst = {link: found.worst for link, found in links.rates.items() if found.worst is not None}
    return Invariant(
        name="link rate",
        verdict=max(judge((median, 0.02, 0.05), (p99, 0.05, 0.10)), holds(conserved), key=SEVERITY.index),
        found=f"median {median:.1%} off, p99 {p99:.1%}, in {windows} windows; {whole}",
        figures={"p50": median, "p99": p99, "windows": windows, "bytes_wrong": evidence.bytes_wrong},
        limits=limits,
        worst=max(worst, key=lambda link: worst[link])[0],
    )


def loss(links: LinkEvidence) -> Invariant:
    if links.is_replay:
        return not_measured("loss", "a replay repeats the recorded losses; replay.json compares them")
    counts, wrong = links.losses, links.against_timetable
    if not counts:
        return not_measured("loss", "nothing was sent")
    # Bonferroni: the intervals of all links and directions hold together with the stated confidence
    confidence = 1.0 - (1.0 - _CONFIDENCE) / len(counts)
    unlikely = [
        device
        for (device, _), count in counts.items()
        if not is_plausible(count.lost, count.sent, count.chance, confidence)
    ]
    drops, sent = sum(count.lost for count in counts.values()), sum(count.sent for count in counts.values())
    return Invariant(
        name="loss",
        verdict=holds(wrong == 0 and not unlikely),
        found=f"{drops} of {sent} transfers lost; {wrong} against the timetable, {len(unlikely)} implausible links",
        figures={"lost": drops, "transfers": sent, "against_timetable": wrong, "implausible": len(unlikely)},
        limits="exactly by the fault timetable, and within the 99 % binomial interval",
        worst=unlikely[0] if unlikely else None,
    )


def causality(evidence: Evidence, links: LinkEvidence) -> Invariant:
    if not links.count and not evidence.too_early:
        return not_measured("causality", "nothing was sent")
    early = links.early + evidence.too_early
    return Invariant(
        name="causality",
        verdict=holds(early + evidence.out_of_order == 0),
        found=f"{early} deliveries too early, {evidence.out_of_order} out of order",
        figures={"early": early, "out_of_order": evidence.out_of_order},
        limits="no message handled before it was due, none out of order",
        worst=links.first_early,
    )
