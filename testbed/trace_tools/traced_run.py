"""One run for a paired comparison: its totals, and the jobs and absences of each device, from one pass over its trace.

The jobs of each device are in a separate file, so that only sums are in memory.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from testbed.history import trace
from testbed.history.event_pass import Handlers
from testbed.history.trace import Event
from testbed.replay.recording import RecordingSplitter
from testbed.runs.stored_run import StoredRun
from testbed.traces.availability import Absence


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRun:
    """A run, with the jobs of each device in a separate file."""

    stored: StoredRun
    files: dict[str, Path]
    away: dict[str, list[Absence]]
    """Device → its absences, by its availability trace or by the script."""

    @property
    def path(self) -> Path:
        return self.stored.trace

    @property
    def header(self) -> trace.Header:
        return self.stored.header


def read(path: Path, folder: Path, use: str) -> TracedRun:
    """Read a trace and write the jobs of each device into ``folder``, which must not exist. Raises UserError.

    ``use`` chooses the seconds of computing, as :class:`RecordingSplitter` takes it; a replay's are always the asked.
    """
    folder.mkdir()
    stored, jobs = StoredRun(path), _Jobs(folder, use)
    stored.scan(jobs)
    jobs.close()
    return TracedRun(stored=stored, files=jobs.files, away=jobs.away)


class _Jobs:
    """A checker that writes the jobs of each device and notes its absences."""

    def __init__(self, folder: Path, use: str) -> None:
        self.files: dict[str, Path] = {}
        self.away: dict[str, list[Absence]] = defaultdict(list)
        self._folder, self._use = folder, use
        self._splitter: RecordingSplitter | None = None

    def handlers(self) -> Handlers:
        return dict.fromkeys(trace.KINDS.values(), self._take) | {
            trace.Header: self._header,
            trace.Joined: self._joined,
            trace.Suspended: self._suspended,
        }

    def close(self) -> None:
        """Complete the files, after the last event."""
        if self._splitter is not None:
            self._splitter.close()

    def _header(self, event: trace.Header) -> None:
        self._splitter = RecordingSplitter(self._folder, use="asked" if event.replay else self._use)

    def _take(self, event: Event) -> None:
        if self._splitter is not None:  # before the header, there are only refused connections
            self._splitter.take(event)

    def _joined(self, event: trace.Joined) -> None:
        if self._splitter is not None and event.device not in self.files:
            name = str(len(self.files))
            self.files[event.device] = self._folder / name
            self._splitter.add(event.device, name)
        self._take(event)

    def _suspended(self, event: trace.Suspended) -> None:
        if event.away:
            self.away[event.device].append((event.since, event.back))
        self._take(event)
