"""A run as plain values, for a page and for figures: one pass over its trace, and what lies beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator.strategies import STRATEGIES
from testbed.analysis import metrics, round_metrics, trace_reading
from testbed.analysis.totals import Totals
from testbed.common import plugins
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.trace import Event
from testbed.report.content.device_lanes import Lanes, TimelineBuilder
from testbed.report.content.head_terms import Clusters
from testbed.runs import run_files as beside
from testbed.runs.run_files import RunFiles
from testbed.trace_tools.trace_text import torn_note

_MOST_NAMED = 8
OWN_RULE = "a rule of one's own"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """Times are emulated seconds, energy is joules, sizes are bytes."""

    path: Path
    header: trace.Header
    total: Totals
    strategy: str
    """What the rule does, in a sentence."""
    paper: str
    summary: dict[str, Any]
    """Of summary.json, with the rounds, without the certificates."""
    scores: list[dict[str, Any]]
    """Rows of metrics.csv."""
    versions: list[dict[str, Any]]
    """Rows of versions.csv."""
    devices: list[dict[str, Any]]
    """Rows of devices.csv."""
    wasted: dict[str, dict[str, float]]
    """Device → fate of tickets → joules; of devices with a power model."""
    lanes: Lanes
    clusters: Clusters
    """Of rules that make clusters with heads; else there are none in it."""
    beside: RunFiles
    missing: list[str]
    """What is not in this trace though it happened."""
    notes: list[str]

    @property
    def metrics(self) -> list[str]:
        """What versions were scored by: accuracy and loss first."""
        names = dict.fromkeys(name for score in self.total.scores for name in score.metrics)
        return sorted(names, key=lambda name: (name != "accuracy", name != "loss"))

    @property
    def staleness(self) -> list[tuple[float, int]]:
        """Of each update that became part of a version, when it did."""
        return [(made.t, staleness) for made in self.total.made for staleness in made.staleness]

    @property
    def losses(self) -> dict[str, list[tuple[float, float]]]:
        """Device → when its updates arrived, and their mean loss in local steps."""
        return {name: device.losses for name, device in self.total.devices.items() if device.losses}

    @property
    def fates(self) -> list[str]:
        """What became of updates that were in vain, the costliest first."""
        sums: dict[str, float] = {}
        for wasted in self.wasted.values():
            for fate, joules in wasted.items():
                sums[fate] = sums.get(fate, 0.0) + joules
        return sorted(sums, key=lambda fate: -sums[fate])

    @property
    def unpowered(self) -> list[str]:
        """Devices without a power model: no joules are told of them, and none of the fleet."""
        return [name for name, device in self.total.energy.devices.items() if device.watts is None]

    @property
    def power_sources(self) -> list[str]:
        """Where the watts come from."""
        every = (device.watts.source for device in self.total.energy.devices.values() if device.watts is not None)
        return list(dict.fromkeys(filter(None, every)))


def gather(place: Path) -> RunData:
    """Everything about a run, by its folder or its trace. Raises UserError."""
    path = trace_reading.file_of(place)
    missing: list[str] = []
    painter, clusters = TimelineBuilder(), Clusters()
    kept: list[Event] = []

    def watch(events: Iterable[Event]) -> Iterator[Event]:
        for event in painter.watch(events):
            clusters.take(event)
            if isinstance(event, trace.Joined | trace.Round):
                kept.append(event)
            yield event

    header, total = trace_reading.read_totals(path, lambda line: missing.append(torn_note(path, line)), watch)
    missing += _unfinished(total)
    notes: list[str] = []
    found = beside.read(path, notes.append)
    strategy, paper = _rule(header.strategy)
    return RunData(
        path=path,
        header=header,
        total=total,
        strategy=strategy,
        paper=paper,
        summary=metrics.summary(total, found.target) | {"rounds": _rounds(path, kept)},
        scores=metrics.metric_rows(total),
        versions=metrics.version_rows(total),
        devices=metrics.device_rows(total),
        wasted={
            name: dict(total.energy.wasted(name))
            for name, device in total.energy.devices.items()
            if device.watts is not None
        },
        lanes=painter.lanes(list(total.devices), total.seconds),
        clusters=clusters,
        beside=found,
        missing=missing,
        notes=notes,
    )


def _rounds(path: Path, events: Iterable[Event]) -> dict[str, Any] | None:
    try:
        return round_metrics.summary(round_metrics.rows(events))
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: its rounds do not add up ({error}); choose another run") from None


def _unfinished(total: Totals) -> Iterator[str]:
    if total.stopped is None:
        yield f"The trace has no end: the run goes on, or was killed. It is shown up to second {total.seconds:.1f}."
    elif total.stopped.silent:
        silent = total.stopped.silent
        more = f" and {len(silent) - _MOST_NAMED} more" if len(silent) > _MOST_NAMED else ""
        yield (
            f"Devices that did not say goodbye: {', '.join(silent[:_MOST_NAMED])}{more}."
            " What they had not told by then is missing."
        )


def _rule(name: str) -> tuple[str, str]:
    """What a rule does, and its paper. One of a user's own is not imported: a report runs nobody's code."""
    known = STRATEGIES.get(name)
    return (OWN_RULE, "") if known is None else ((known.__doc__ or "").strip(), plugins.citation(known))
