"""The certificate of a run: ten invariants, each a function of the trace.

Times are emulated seconds unless a name says host. Figures that the kernel does not provide are "not measured", never
assumed. ADR 7 explains how each invariant is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.fidelity.compute_checks import canary, step_time, stolen
from testbed.fidelity.evidence import EvidenceGatherer
from testbed.fidelity.link_checks import causality, link_delay, link_rate, loss
from testbed.fidelity.link_evidence import LinkEvidence
from testbed.fidelity.measurements import Evidence
from testbed.fidelity.run_checks import admission, aggregator, conservation
from testbed.fidelity.verdict import SEVERITY, not_measured
from testbed.history.event_pass import pass_events
from testbed.history.trace import Event
from testbed.profile.fleet import DeviceSpec
from testbed.runs.results.certificate import Certificate, Invariant, Verdict

_VIRTUAL = "virtual clock: nothing was measured, all moments are computed"


def certify(events: Iterable[Event], devices: Sequence[DeviceSpec]) -> Certificate:
    """Judge a run by its trace and by the devices that its profile describes."""
    links = LinkEvidence(devices)
    gatherer = EvidenceGatherer(links.note)
    pass_events(events, links, gatherer)
    return judged(gatherer.close(), links, devices)


def judged(evidence: Evidence, links: LinkEvidence, devices: Sequence[DeviceSpec]) -> Certificate:
    """Judge a run by the evidence in its trace and by the devices that its profile describes."""
    links.add_up()
    lines: tuple[Invariant, ...] = (
        step_time(evidence),
        stolen(evidence),
        link_delay(evidence, links),
        link_rate(evidence, links),
        loss(links),
        causality(evidence, links),
        aggregator(evidence, devices),
        canary(evidence),
        admission(evidence),
        conservation(evidence),
    )
    if evidence.header is not None and evidence.header.clock == "virtual":
        lines = (*(not_measured(line.name, _VIRTUAL) for line in lines[:-1]), lines[-1])
    verdict = max((line.verdict for line in lines), key=SEVERITY.index)
    unknown = evidence.stopped is None or (
        lines[0].verdict is Verdict.NOT_MEASURED and any(device.throttle != "none" for device in devices)
    )
    if verdict is Verdict.PASS and unknown:  # the other invariants also hold for a run in which nothing happened
        verdict = Verdict.NOT_MEASURED
    return Certificate(
        verdict=verdict,
        dilation=evidence.header.dilation if evidence.header is not None else 1.0,
        invariants=lines,
    )
