"""A run, as far as a comparison is concerned with it: by its trace, and what its folder says beside it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.analysis import metrics, trace_reading
from testbed.common.errors import UserError
from testbed.history import trace
from testbed.runs import run_files, sweep_state
from testbed.runs.run_files import RunFiles
from testbed.trace_tools.trace_text import torn_note


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One run. Everything in it is in emulated seconds."""

    place: Path
    """Its folder, or its trace file where that lies about without one."""
    header: trace.Header
    rows: Sequence[Mapping[str, Any]]
    """Of metrics.csv: one for each version that was scored."""
    summary: Mapping[str, Any]
    devices: tuple[str, ...]
    profile: Mapping[str, Any] | None
    """None where there is no profile.toml: then only the rule and its parameters are known."""
    recorded: Path | None
    """The run whose delays this one met again."""
    fidelity: str | None
    """The verdict of its certificate, if it has one."""
    notes: tuple[str, ...]

    @property
    def metrics(self) -> set[str]:
        """Scored at least once."""
        return {name for row in self.rows for name in row} - set(_NO_METRICS)

    def setting(self, section: str, key: str) -> Any:
        """None where its profile does not tell; it may be any file of that name."""
        return _setting(self.profile, section, key)


_NO_METRICS = ("time_s", "host_s", "version", "joules", "bytes")


def read(places: Iterable[Path]) -> list[ComparedRun]:
    """Runs in the order in which they are named; one that is named twice counts once. Raises UserError."""
    found = list(dict.fromkeys(file.resolve() for place in places for file in _files(place)))
    return [_read(path) for path in found]


def _files(place: Path) -> Iterator[Path]:
    """The folder of a sweep stands for the runs that it has finished."""
    if not (place / sweep_state.NAME).is_file():
        yield trace_reading.file_of(place)
        return
    runs = sweep_state.finished_runs(place)
    if not runs:
        raise UserError(f"{place}: no run of this sweep is finished; repeat its command, it goes on where it stopped")
    yield from map(trace_reading.file_of, runs)


def _read(path: Path) -> ComparedRun:
    torn, notes = list[int](), list[str]()
    header, total = trace_reading.read_totals(path, torn.append)
    place, found = _place(path), run_files.read(path, notes.append)
    notes = [torn_note(path, line) for line in torn] + [f"{place}: {note}" for note in notes]
    if total.stopped is None:
        notes.append(f"{place}: has no end: the run goes on, or was killed; it is compared as far as it goes")
    profile = _table(found.profile)
    return ComparedRun(
        place=place,
        header=header,
        rows=metrics.metric_rows(total),
        summary=metrics.summary(total),
        devices=tuple(total.devices),
        profile=profile,
        recorded=_recorded(found, profile),
        fidelity=found.fidelity.verdict if found.fidelity is not None else None,
        notes=tuple(notes),
    )


def _place(path: Path) -> Path:
    """What a user calls a run: one place, whether its folder, its trace or its packed trace is named."""
    path = path.resolve()
    return path.parent if run_files.is_of_a_run(path) else path


def _table(profile: str) -> dict[str, Any] | None:
    """None where there is none that can be read; of the latter, a note has been told."""
    try:
        return tomllib.loads(profile) if profile else None
    except ValueError:
        return None


def _recorded(found: RunFiles, profile: Mapping[str, Any] | None) -> Path | None:
    """By its certificate or, if it was killed before it had one, by its profile."""
    told = _setting(profile, "replay", "trace") if found.replayed is None else found.replayed.trace
    return _place(Path(told)) if isinstance(told, str) and "\0" not in told else None


def _setting(profile: Mapping[str, Any] | None, section: str, key: str) -> Any:
    table = (profile or {}).get(section)
    return table.get(key) if isinstance(table, Mapping) else None
