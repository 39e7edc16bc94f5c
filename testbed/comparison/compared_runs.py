"""The runs of a comparison: what it needs from the trace and the other files of each run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.analysis import metrics, run_tables, trace_reading
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.loading.renamed_keys import upgrade
from testbed.runs import run_files, sweep_state
from testbed.runs.run_files import RunFiles
from testbed.trace_tools.trace_text import torn_note


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredVersion:
    """A version of a run with its score in one metric, and what the fleet had spent when the version was made."""

    version: int
    score: float
    time_s: float
    joules: float | None
    """None if a device has no power model."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run. Everything in it is in emulated seconds. Only this module looks into ``rows`` and ``summary``."""

    place: Path
    """Its folder, or its trace file if that is not in a run folder."""
    header: trace.Header
    rows: Sequence[Mapping[str, Any]]
    """Rows of metrics.csv: one for each scored version."""
    summary: Mapping[str, Any]
    devices: tuple[str, ...]
    profile: Mapping[str, object] | None
    """Keys and values of profile.toml; None without one: then only the strategy and its parameters are known."""
    recorded: Path | None
    """The run that this one replayed."""
    fidelity: str | None
    """The verdict of its certificate, if it has one."""
    notes: tuple[str, ...]

    @property
    def metrics(self) -> set[str]:
        """The metrics that were scored at least once."""
        return {name for row in self.rows for name in row} - set(_NO_METRICS)

    @property
    def is_scored(self) -> bool:
        """Whether at least one version was scored."""
        return bool(self.rows)

    def scored(self, metric: str) -> list[ScoredVersion]:
        """Return the versions that have a score in ``metric``, in their order."""
        return [
            ScoredVersion(
                version=row["version"],
                score=row[metric],
                time_s=row["time_s"],
                joules=row["joules"],
                bytes=row["bytes"],
            )
            for row in self.rows
            if metric in row
        ]

    def cost(self, key: str) -> float | None:
        """Return a figure of summary.json; None if the run has none."""
        figure: float | None = self.summary[key]
        return figure

    def setting(self, section: str, key: str) -> object:
        """A value of its profile; None if it has no such key (profile.toml may be any file)."""
        return _setting(self.profile, section, key)


_NO_METRICS = ("time_s", "host_s", "version", "joules", "bytes")


def read(places: Iterable[Path]) -> list[ComparedRun]:
    """Read runs in the given order, each once. Raises UserError if one cannot be read."""
    found = list(dict.fromkeys(file.resolve() for place in places for file in _files(place)))
    return [_read(path) for path in found]


def _files(place: Path) -> Iterator[Path]:
    """The trace files of a place: the folder of a sweep stands for its finished runs."""
    if not (place / sweep_state.NAME).is_file():
        yield trace_reading.file_of(place)
        return
    runs = sweep_state.finished_runs(place)
    if not runs:
        raise UserError(f"{place}: no run of this sweep is finished; repeat its command, which continues it")
    yield from map(trace_reading.file_of, runs)


def _read(path: Path) -> ComparedRun:
    torn, notes = list[int](), list[str]()
    header, total = trace_reading.read_totals(path, torn.append)
    place, found = _place(path), run_files.read(path, notes.append)
    notes = [torn_note(path, line) for line in torn] + [f"{place}: {note}" for note in notes]
    if total.stopped is None:
        notes.append(f"{place}: has no end: the run continues or was killed; it is compared up to its last event")
    profile = _table(found.profile)
    return ComparedRun(
        place=place,
        header=header,
        rows=run_tables.metric_rows(total),
        summary=metrics.summary(total),
        devices=tuple(total.devices),
        profile=profile,
        recorded=_recorded(found, profile),
        fidelity=found.fidelity.verdict if found.fidelity is not None else None,
        notes=tuple(notes),
    )


def _place(path: Path) -> Path:
    """One path for a run, whether its folder, its trace or its packed trace is named."""
    path = path.resolve()
    return path.parent if run_files.is_of_a_run(path) else path


def _table(profile: str) -> Mapping[str, object] | None:
    """The profile as a table, in its present words; None if there is none or it cannot be read (which a note says)."""
    try:
        table = tomllib.loads(profile) if profile else None
    except ValueError:
        return None
    if table is not None:
        upgrade(table)
    return table


def _recorded(found: RunFiles, profile: Mapping[str, object] | None) -> Path | None:
    """The replayed run, by the replay certificate or, without one, by the profile."""
    named = _setting(profile, "replay", "trace") if found.replayed is None else found.replayed.trace
    return _place(Path(named)) if isinstance(named, str) and "\0" not in named else None


def _setting(profile: Mapping[str, object] | None, section: str, key: str) -> object:
    table = (profile or {}).get(section)
    return table.get(key) if isinstance(table, Mapping) else None
