"""The runs of a comparison: what it needs from the trace and the other files of each run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.analysis import run_tables, trace_reading
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.runs import sweep_state
from testbed.runs.results.summary import Summary
from testbed.runs.results.table_rows import MetricRow
from testbed.runs.stored_run import StoredRun, readable


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
    """One run. Everything in it is in emulated seconds."""

    place: Path
    """Its folder, or its trace file if that is not in a run folder."""
    header: trace.Header
    rows: Sequence[MetricRow]
    summary: Summary
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
        return {name for row in self.rows for name in row.scores}

    @property
    def is_scored(self) -> bool:
        """Whether at least one version was scored."""
        return bool(self.rows)

    def scored(self, metric: str) -> list[ScoredVersion]:
        """Return the versions that have a score in ``metric``, in their order."""
        return [
            ScoredVersion(
                version=row.version,
                score=row.scores[metric],
                time_s=row.time_s,
                joules=row.joules,
                bytes=row.bytes,
            )
            for row in self.rows
            if metric in row.scores
        ]

    def cost(self, key: str) -> float | None:
        """Return a figure of the summary; None if the run has none."""
        figure: float | None = getattr(self.summary, key)
        return figure

    def setting(self, section: str, key: str) -> object:
        """A value of its profile; None if it has no such key (profile.toml may be any file)."""
        return _setting(self.profile, section, key)


def read(places: Iterable[Path]) -> list[ComparedRun]:
    """Read runs in the given order, each once. Raises UserError if one cannot be read."""
    found = list(dict.fromkeys(file.resolve() for place in places for file in _files(place)))
    return [_read(StoredRun(path)) for path in found]


def _files(place: Path) -> Iterator[Path]:
    """The trace files of a place: the folder of a sweep stands for its finished runs."""
    if not (place / sweep_state.NAME).is_file():
        yield trace_reading.file_of(place)
        return
    runs = sweep_state.finished_runs(place)
    if not runs:
        raise UserError(f"{place}: no run of this sweep is finished; repeat its command, which continues it")
    yield from map(trace_reading.file_of, runs)


def _read(run: StoredRun) -> ComparedRun:
    """Read a run by its trace: the results that are compared follow from nothing else."""
    notes: list[str] = []
    run.scan()
    profile = readable(lambda: run.profile_table, notes)
    certificate = readable(lambda: run.certificate, notes)
    replay = readable(lambda: run.replay_certificate, notes)
    notes = [*filter(None, [run.torn_note()]), *notes]
    if run.totals.stopped is None:
        notes.append(f"{run.path}: has no end: the run continues or was killed; it is compared up to its last event")
    named = _setting(profile, "replay", "trace") if replay is None else replay.trace
    return ComparedRun(
        place=run.path,
        header=run.header,
        rows=run_tables.metric_rows(run.totals),
        summary=run.computed_summary,
        devices=tuple(run.totals.devices),
        profile=profile,
        recorded=_place(Path(named)) if isinstance(named, str) and "\0" not in named else None,
        fidelity=certificate.verdict if certificate is not None else None,
        notes=tuple(notes),
    )


def _place(path: Path) -> Path:
    """One path for a run, whether its folder, its trace or its packed trace is named."""
    return StoredRun(path.resolve()).path


def _setting(profile: Mapping[str, object] | None, section: str, key: str) -> object:
    table = (profile or {}).get(section)
    return table.get(key) if isinstance(table, Mapping) else None
