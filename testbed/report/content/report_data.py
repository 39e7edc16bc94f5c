"""A run as plain values for the page and its figures: one pass over the trace, and the files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aggregator.strategies import STRATEGIES
from testbed.analysis import run_tables
from testbed.analysis.totals import Totals
from testbed.common import plugins
from testbed.common.files.spool import RowSpool, Spool
from testbed.history import trace
from testbed.history.event_pass import Checker
from testbed.host.rapl import HostEnergy
from testbed.report.content.device_lanes import Lanes, TimelineBuilder
from testbed.report.content.head_terms import Clusters
from testbed.runs.results.certificate import Certificate
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.results.run_meta import Meta
from testbed.runs.results.summary import Summary
from testbed.runs.results.table_rows import DeviceRow, MetricRow, VersionRow
from testbed.runs.stored_run import StoredRun, readable

_MOST_NAMED = 8
OWN_STRATEGY = "a strategy of the user's own"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """Times are emulated seconds, energy is joules, sizes are bytes."""

    path: Path
    header: trace.Header
    total: Totals
    description: str
    """What the strategy does, in a sentence."""
    paper: str
    summary: Summary
    """By the trace alone: without the certificates."""
    scores: list[MetricRow]
    versions: RowSpool[VersionRow]
    devices: list[DeviceRow]
    wasted: dict[str, dict[str, float]]
    """Device with a power model → fate of tickets → joules."""
    lanes: Lanes
    clusters: Clusters
    """Empty if the strategy makes no clusters."""
    certificate: Certificate | None
    replay: ReplayCertificate | None
    meta: Meta | None
    host_energy: HostEnergy | None
    profile: str
    """The profile as text; empty if there is none."""
    task: str
    """The task in one line; empty if there is no profile."""
    missing: list[str]
    """Sentences about what is missing in this trace."""
    notes: list[str]

    @property
    def metrics(self) -> list[str]:
        """The metrics of the scores: accuracy and loss first."""
        names = dict.fromkeys(name for score in self.total.scores for name in score.metrics)
        return sorted(names, key=lambda name: (name != "accuracy", name != "loss"))

    @property
    def staleness(self) -> Spool:
        """For each update in a version: when that was made, and the update's staleness."""
        return self.total.made.staleness

    @property
    def losses(self) -> Spool:
        """For each update: when it arrived, and the mean loss of its local steps."""
        return self.total.losses

    @property
    def fates(self) -> list[str]:
        """Fates of the tickets that wasted energy, the most costly first."""
        sums: dict[str, float] = {}
        for wasted in self.wasted.values():
            for fate, joules in wasted.items():
                sums[fate] = sums.get(fate, 0.0) + joules
        return sorted(sums, key=lambda fate: -sums[fate])

    @property
    def unpowered(self) -> list[str]:
        """Devices without a power model: neither they nor the fleet have figures in joules."""
        return [name for name, device in self.total.energy.devices.items() if device.watts is None]

    @property
    def power_sources(self) -> list[str]:
        """The sources of the watts, as the profiles name them."""
        every = (device.watts.source for device in self.total.energy.devices.values() if device.watts is not None)
        return list(dict.fromkeys(filter(None, every)))


class ReportCollector:
    """What a report needs of the events of a trace, besides the totals: collected in the pass that counts these."""

    def __init__(self) -> None:
        self.timeline, self.clusters = TimelineBuilder(), Clusters()
        self.checkers: tuple[Checker, ...] = (self.timeline, self.clusters)
        self.listeners = (self.timeline.add,)


def gather(run: StoredRun, collected: ReportCollector | None = None) -> RunData:
    """The data of a report. Raises UserError if the run cannot be read.

    ``collected``: the events of the trace have passed already, and ``run`` knows its totals.
    """
    if collected is None:
        collected = ReportCollector()
        run.scan(*collected.checkers, listeners=collected.listeners)
    total, header, notes = run.totals, run.header, list[str]()
    description, paper = _description(header.strategy)
    stored = readable(lambda: run.stored_summary, notes)
    profile = readable(lambda: run.profile_table, notes)
    return RunData(
        path=run.trace,
        header=header,
        total=total,
        description=description,
        paper=paper,
        summary=run.computed_summary,
        scores=run_tables.metric_rows(total),
        versions=total.made.rows,
        devices=run_tables.device_rows(total),
        wasted={
            name: wasted
            for name, wasted in total.energy.all_wasted().items()
            if total.energy.devices[name].watts is not None
        },
        lanes=collected.timeline.lanes(list(total.devices), total.seconds),
        clusters=collected.clusters,
        certificate=readable(lambda: run.certificate, notes),
        replay=readable(lambda: run.replay_certificate, notes),
        meta=readable(lambda: run.meta, notes),
        host_energy=stored.host_energy if stored is not None else None,
        profile=readable(lambda: run.profile_text, []) or "",
        task=_task(profile or {}),
        missing=[*filter(None, [run.torn_note()]), *_unfinished(total)],
        notes=notes,
    )


def _task(profile: Mapping[str, object]) -> str:
    named = profile.get("task", "")
    return _in_words(named) if isinstance(named, str | dict) else ""


def _in_words(named: str | Mapping[str, object]) -> str:
    """A name with its parameters in parentheses; a parameter may itself be a name with parameters (the split)."""
    if isinstance(named, str):
        return named
    name = named.get("name", "")
    listed = ", ".join(
        f"{key} {_in_words(value) if isinstance(value, dict) and 'name' in value else value}"
        for key, value in named.items()
        if key != "name"
    )
    return f"{name} ({listed})" if listed else str(name)


def _unfinished(total: Totals) -> Iterator[str]:
    if total.stopped is None:
        yield f"The trace has no end: the run continues or was killed. It is shown up to second {total.seconds:.1f}."
    elif total.stopped.silent:
        silent = total.stopped.silent
        more = f" and {len(silent) - _MOST_NAMED} more" if len(silent) > _MOST_NAMED else ""
        yield (
            f"Devices that sent no last report: {', '.join(silent[:_MOST_NAMED])}{more}. Their last events are missing."
        )


def _description(name: str) -> tuple[str, str]:
    """What a strategy does, and its paper. A user's own strategy is not imported: a report runs no foreign code."""
    known = STRATEGIES.get(name)
    return (OWN_STRATEGY, "") if known is None else ((known.__doc__ or "").strip(), plugins.citation(known))
