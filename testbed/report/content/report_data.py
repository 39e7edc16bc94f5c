"""A run as plain values for the page and its figures: one pass over the trace, and the files beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator.strategies import STRATEGIES
from testbed.analysis import metrics, round_metrics, run_tables, trace_reading
from testbed.analysis.totals import Totals
from testbed.common import plugins
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.history.trace import Event
from testbed.report.content.device_lanes import Lanes, TimelineBuilder
from testbed.report.content.head_terms import Clusters
from testbed.runs import run_files
from testbed.runs.run_files import RunFiles
from testbed.trace_tools.trace_text import torn_note

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
    summary: dict[str, Any]
    """As in summary.json, with the rounds, without the certificates."""
    scores: list[dict[str, Any]]
    """Rows of metrics.csv."""
    versions: list[dict[str, Any]]
    """Rows of versions.csv."""
    devices: list[dict[str, Any]]
    """Rows of devices.csv."""
    wasted: dict[str, dict[str, float]]
    """Device with a power model → fate of tickets → joules."""
    lanes: Lanes
    clusters: Clusters
    """Empty if the strategy makes no clusters."""
    files: RunFiles
    missing: list[str]
    """Sentences about what is missing in this trace."""
    notes: list[str]

    @property
    def metrics(self) -> list[str]:
        """The metrics of the scores: accuracy and loss first."""
        names = dict.fromkeys(name for score in self.total.scores for name in score.metrics)
        return sorted(names, key=lambda name: (name != "accuracy", name != "loss"))

    @property
    def staleness(self) -> list[tuple[float, int]]:
        """For each update in a version: when that was made, and the update's staleness."""
        return [(made.t, staleness) for made in self.total.made for staleness in made.staleness]

    @property
    def losses(self) -> dict[str, list[tuple[float, float]]]:
        """Device → for each update, when it arrived, and the mean loss of its local steps."""
        return {name: device.losses for name, device in self.total.devices.items() if device.losses}

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


def gather(place: Path) -> RunData:
    """Read a run by its folder or trace. Raises UserError if it cannot be read."""
    path = trace_reading.file_of(place)
    missing: list[str] = []
    timeline, clusters = TimelineBuilder(), Clusters()
    kept: list[Event] = []

    def watch(events: Iterable[Event]) -> Iterator[Event]:
        for event in timeline.watch(events):
            clusters.take(event)
            if isinstance(event, trace.Joined | trace.Round):
                kept.append(event)
            yield event

    header, total = trace_reading.read_totals(path, lambda line: missing.append(torn_note(path, line)), watch)
    missing += _unfinished(total)
    notes: list[str] = []
    found = run_files.read(path, notes.append)
    description, paper = _description(header.strategy)
    return RunData(
        path=path,
        header=header,
        total=total,
        description=description,
        paper=paper,
        summary=metrics.summary(total, found.target) | {"rounds": _rounds(path, kept)},
        scores=run_tables.metric_rows(total),
        versions=run_tables.version_rows(total),
        devices=run_tables.device_rows(total),
        wasted={
            name: dict(total.energy.wasted(name))
            for name, device in total.energy.devices.items()
            if device.watts is not None
        },
        lanes=timeline.lanes(list(total.devices), total.seconds),
        clusters=clusters,
        files=found,
        missing=missing,
        notes=notes,
    )


def _rounds(path: Path, events: Iterable[Event]) -> dict[str, Any] | None:
    try:
        return round_metrics.summary(round_metrics.rows(events))
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: its rounds are inconsistent ({error}); choose another run") from None


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
