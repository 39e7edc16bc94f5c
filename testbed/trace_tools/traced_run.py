"""One run for a paired comparison: its totals, and the jobs and absences of each device, from one pass over its trace.

The jobs of each device are in a separate file, so that only sums are in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.analysis import metrics, run_tables, trace_reading
from testbed.analysis.totals import Totals
from testbed.history import trace
from testbed.history.trace import Event
from testbed.replay.recording import RecordingSplitter
from testbed.traces.availability import Absence


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedFigures:
    """Results of a run; None where no update arrived, or no version was scored."""

    seconds: float
    mean_staleness: float | None
    max_staleness: int | None
    best_accuracy: float | None
    accuracy: float | None
    loss: float | None
    """Accuracy and loss of the last version that was scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A run, with the jobs of each device in a separate file."""

    path: Path
    header: trace.Header
    total: Totals
    figures: TracedFigures
    files: dict[str, Path]
    away: dict[str, list[Absence]]
    """Device → its absences, by its availability trace or by the script."""
    torn: list[int]


def read(path: Path, folder: Path, use: str) -> TracedRun:
    """Read a trace and write the jobs of each device into ``folder``, which must not exist. Raises UserError.

    ``use`` chooses the seconds of computing, as :class:`RecordingSplitter` takes it; a replay's are always the asked.
    """
    folder.mkdir()
    torn: list[int] = []
    jobs = _Jobs(folder, use)
    header, total = trace_reading.read_totals(path, torn.append, jobs.watch)
    return TracedRun(
        path=path,
        header=header,
        total=total,
        figures=_figures(total),
        files=jobs.files,
        away=jobs.away,
        torn=torn,
    )


def _figures(total: Totals) -> TracedFigures:
    summary, rows = metrics.summary(total), run_tables.metric_rows(total)
    last = rows[-1] if rows else {}
    return TracedFigures(
        seconds=summary["seconds"],
        mean_staleness=summary["mean_staleness"],
        max_staleness=summary["max_staleness"],
        best_accuracy=summary["best_accuracy"],
        accuracy=last.get("accuracy"),
        loss=last.get("loss"),
    )


class _Jobs:
    """Jobs and absences, from events that pass by on their way to the totals."""

    def __init__(self, folder: Path, use: str) -> None:
        self.files: dict[str, Path] = {}
        self.away: dict[str, list[Absence]] = defaultdict(list)
        self._folder, self._use = folder, use

    def watch(self, events: Iterator[Event]) -> Iterator[Event]:
        """Yield all events; after the last, the files are complete."""
        splitter: RecordingSplitter | None = None
        for event in events:
            if splitter is None and isinstance(event, trace.Header):
                splitter = RecordingSplitter(self._folder, use="asked" if event.replay else self._use)
            elif splitter is not None:  # before the header, there are only refused connections
                if isinstance(event, trace.Joined):
                    self._add(event.device, splitter)
                elif isinstance(event, trace.Suspended) and event.away:
                    self.away[event.device].append((event.since, event.back))
                splitter.take(event)
            yield event
        if splitter is not None:
            splitter.close()

    def _add(self, device: str, splitter: RecordingSplitter) -> None:
        if device not in self.files:
            name = str(len(self.files))
            self.files[device] = self._folder / name
            splitter.add(device, name)
