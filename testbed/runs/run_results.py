"""The results of a run, computed from its trace in one pass: tables, summary and certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from testbed.analysis import metrics, run_tables
from testbed.analysis.timeline import Span
from testbed.common.files.spool import RowSpool
from testbed.fidelity.certify import judged
from testbed.fidelity.evidence import EvidenceGatherer
from testbed.fidelity.link_evidence import LinkEvidence
from testbed.history import trace
from testbed.history.event_pass import Checker, no_collection
from testbed.host.rapl import HostEnergy
from testbed.profile.fleet import DeviceSpec
from testbed.profile.schema import Replay
from testbed.replay import replay_certificate
from testbed.replay.replay_certificate import ReplayObserver
from testbed.runs.results.summary import Summary
from testbed.runs.results.table_rows import DeviceRow, MetricRow, VersionRow
from testbed.runs.trace_scan import TraceScan, scan


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResults:
    """All results of a run; the summary contains the certificates."""

    scanned: TraceScan
    summary: Summary
    metrics: Sequence[MetricRow]
    versions: RowSpool[VersionRow]
    devices: Sequence[DeviceRow]


@no_collection()
def compute(
    trace_file: Path,
    devices: Sequence[DeviceSpec],
    replayed: Replay | None = None,
    *,
    target: float | None = None,
    host_energy: HostEnergy | None = None,
    checkers: Iterable[Checker] = (),
    listeners: Iterable[Callable[[Span], None]] = (),
) -> RunResults:
    """Read the trace once. A run that failed before its first event has no trace, and empty results.

    ``target`` is the accuracy that the run should reach, ``host_energy`` what the host's meter measured; ``checkers``
    and ``listeners`` take the events and spans in the same pass. Raises TraceError if the trace cannot be read.
    """
    is_replay = replayed is not None and replayed.trace is not None and bool(devices)
    links, observer = LinkEvidence(devices), ReplayObserver()
    evidence = EvidenceGatherer(links.note)
    torn: list[int] = []
    events = trace.read(trace_file, torn.append) if trace_file.exists() else iter(())
    scanned = scan(events, links, evidence, *([observer] if is_replay else []), *checkers, listeners=listeners)
    scored = run_tables.metric_rows(scanned.total)
    replay = None
    if replayed is not None and is_replay:
        replay = replay_certificate.certify(replayed, [device.name for device in devices], observer.observed)
    return RunResults(
        scanned=scanned,
        summary=replace(
            metrics.summary(scanned.total, target, scored=scored, rounds=scanned.rounds),
            host_energy=host_energy,
            fidelity=judged(evidence.close(), links, devices),
            replay=replay,
            torn_line=torn[0] if torn else None,
        ),
        metrics=scored,
        versions=scanned.total.made.rows,
        devices=run_tables.device_rows(scanned.total),
    )
