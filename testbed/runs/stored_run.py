"""A run as it is stored: its trace, its profile and its results, read when they are asked for.

Result files are read if they are there. Without them (a trace that was passed on alone, a run that was killed or still
continues) the same values are computed from the trace, in one pass that serves all of them. Nothing that a profile
names is imported: to look at a run never runs foreign code.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from msgspec.structs import replace

from testbed.analysis import metrics, run_tables, trace_reading
from testbed.analysis.timeline import Span
from testbed.analysis.totals import Totals
from testbed.common.errors import NotARun, UnreadableFile, UserError
from testbed.common.files.regular_file import read_at_most
from testbed.common.parameters import build
from testbed.history import trace
from testbed.history.event_pass import Checker
from testbed.history.trace import Event
from testbed.loading.profile_files import MOST_BYTES
from testbed.loading.renamed_keys import upgrade
from testbed.profile.schema import Experiment
from testbed.runs import sweep_state
from testbed.runs.results.certificate import Certificate
from testbed.runs.results.columns import Columns, Row
from testbed.runs.results.replay_result import ReplayCertificate
from testbed.runs.results.result_files import REMEDY, T, read_rows, read_struct
from testbed.runs.results.run_meta import Meta
from testbed.runs.results.summary import Summary
from testbed.runs.results.table_rows import DeviceRow, MetricRow, RoundRow, VersionRow
from testbed.runs.trace_scan import TraceScan, scan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Content = TypeVar("Content")


class StoredRun:
    """One run. Attributes are read at their first use; each may raise UserError if its file cannot be read."""

    def __init__(self, trace_file: Path) -> None:
        self.trace = trace_file
        """The trace, which may be packed."""
        self.folder = trace_file.parent if _is_in_run_folder(trace_file) else None
        """The run folder; None for a trace under another name, whose neighbours are not its files."""
        self.torn_line: int | None = None
        """Number of the last line, if a crash has torn it; known after the trace was read to its end."""

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """Open a run by its folder or its trace (.jsonl, .jsonl.gz). Raises NotARun if it is neither."""
        if not isinstance(place, str | Path):
            raise NotARun(f"{place!r}: is not a path; name the folder of a run or its trace")
        path = Path(place)
        if (path / sweep_state.NAME).is_file():
            raise NotARun(f"{path}: is the folder of a sweep; name one of its runs (compare takes the whole sweep)")
        return cls(trace_reading.file_of(path))

    @property
    def path(self) -> Path:
        """The run folder or, if there is none, the trace."""
        return self.folder or self.trace

    def __repr__(self) -> str:
        return f"{type(self).__name__}.open({str(self.path)!r})"

    # ---- the trace

    def events(self) -> Iterator[Event]:
        """The events in their order. Raises UserError at a line that is none, or if times run backwards."""
        return trace_reading.events(self.trace, self._note_torn)

    def _note_torn(self, line: int) -> None:
        self.torn_line = line

    @functools.cached_property
    def header(self) -> trace.Header:
        """What was run. Raises UserError if the trace has no header."""
        for event in trace_reading.events(self.trace):
            if isinstance(event, trace.Header):
                return event
        raise UserError(f"{self.trace}: has no header, so that its strategy is unknown; choose another run")

    def scan(self, *checkers: Checker, listeners: Iterable[Callable[[Span], None]] = ()) -> TraceScan:
        """Read the trace once, for totals and rounds and for all ``checkers``. Raises UserError if it cannot be read.

        The totals are kept, so that no attribute reads the trace again.
        """
        try:
            found = scan(self.events(), *checkers, listeners=listeners)
        except (KeyError, ValueError) as error:
            raise UserError(f"{self.trace}: its events are inconsistent ({error}); choose another run") from None
        if found.total.header is None:
            raise UserError(f"{self.trace}: has no header, so that its strategy is unknown; choose another run")
        self.keep(found, self.torn_line)
        return found

    def keep(self, scanned: TraceScan, torn_line: int | None) -> None:
        """Use a pass over this trace that was made elsewhere: its totals, and the number of a torn last line."""
        self.__dict__["_scanned"] = scanned  # as functools.cached_property stores it
        if scanned.total.header is not None:
            self.__dict__["header"] = scanned.total.header
        self.torn_line = torn_line

    @functools.cached_property
    def _scanned(self) -> TraceScan:
        return self.scan()

    @property
    def totals(self) -> Totals:
        """The sums over the trace from which the results are made."""
        return self._scanned.total

    def torn_note(self) -> str | None:
        """A sentence about a torn last line; None if there is none."""
        return None if self.torn_line is None else trace_reading.torn_note(self.trace, self.torn_line)

    # ---- results

    @functools.cached_property
    def summary(self) -> Summary:
        """The most important figures, by summary.json or, without that, by the trace."""
        return self.stored_summary or self.computed_summary

    @functools.cached_property
    def stored_summary(self) -> Summary | None:
        """The content of summary.json; None if there is no such file."""
        return self._struct("summary.json", Summary)

    @functools.cached_property
    def computed_summary(self) -> Summary:
        """The summary by the trace alone: without what only a file has, such as the certificate."""
        scanned = self._scanned
        summary = metrics.summary(scanned.total, self.target_accuracy, rounds=scanned.rounds)
        return replace(summary, torn_line=self.torn_line)

    @functools.cached_property
    def metrics(self) -> Columns[MetricRow]:
        """A row for each scored version."""
        rows = self._rows("metrics.csv", MetricRow)
        return Columns(MetricRow, run_tables.metric_rows(self.totals) if rows is None else rows)

    @functools.cached_property
    def versions(self) -> Columns[VersionRow]:
        """A row for each version."""
        rows = self._rows("versions.csv", VersionRow)
        return Columns(VersionRow, self.totals.made.rows if rows is None else rows)

    @functools.cached_property
    def devices(self) -> Columns[DeviceRow]:
        """A row for each device."""
        rows = self._rows("devices.csv", DeviceRow)
        return Columns(DeviceRow, run_tables.device_rows(self.totals) if rows is None else rows)

    @functools.cached_property
    def rounds(self) -> Columns[RoundRow]:
        """A row for each round; none if the strategy has no rounds."""
        rows = self._rows("rounds.csv", RoundRow)
        if rows is None and self.stored_summary is not None and self.stored_summary.rounds is None:
            rows = []  # the strategy has no rounds, and so the run no such file
        return Columns(RoundRow, self._scanned.rounds if rows is None else rows)

    @functools.cached_property
    def certificate(self) -> Certificate | None:
        """How exact the timing was; None if the run was not certified. A run is certified when it ends."""
        return self._struct("fidelity.json", Certificate)

    @functools.cached_property
    def replay_certificate(self) -> ReplayCertificate | None:
        """How exactly a replay repeated the recorded run; None if it is none, or was not certified."""
        return self._struct("replay.json", ReplayCertificate)

    @functools.cached_property
    def meta(self) -> Meta | None:
        """On what and with what the run was made; None if there is no meta.json."""
        return self._struct("meta.json", Meta)

    def model(self) -> dict[str, npt.NDArray[np.float32]]:
        """The final model: name of each parameter → its values. Raises UserError if the run has none."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = self.path / "checkpoints" / "final.safetensors"
        if not self._has("checkpoints/final.safetensors"):
            raise UserError(
                f"{self.path}: has no final model (checkpoints/final.safetensors): the run did not end, or the file was"
                " removed, or this is a trace alone; resume the run, or run the experiment again"
            )
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise UnreadableFile(f"{path}: is not complete, or damaged: {error}; run the experiment again") from None

    # ---- the profile

    @functools.cached_property
    def profile_text(self) -> str | None:
        """The profile with all defaults written out, as TOML; None if there is no profile.toml."""
        if not self._has("profile.toml"):
            return None
        path = self.path / "profile.toml"
        try:
            return read_at_most(path, MOST_BYTES).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UnreadableFile(f"{path}: cannot be read: {error}; {REMEDY}") from None

    @functools.cached_property
    def profile_table(self) -> dict[str, object] | None:
        """The profile as plain values, with the present names of its keys; None if there is no profile.toml."""
        if self.profile_text is None:
            return None
        try:
            table = tomllib.loads(self.profile_text)
        except (ValueError, RecursionError) as error:
            raise UnreadableFile(f"{self.path / 'profile.toml'}: not valid TOML: {error}; {REMEDY}") from None
        upgrade(table)
        return table

    @functools.cached_property
    def profile(self) -> Experiment | None:
        """The experiment that was run; None if there is no profile.toml. Raises ProfileError if it is not one."""
        if self.profile_table is None:
            return None
        return build(Experiment, self.profile_table, str(self.path / "profile.toml"))

    @property
    def target_accuracy(self) -> float | None:
        """``stop.target_accuracy`` of the profile; None if it has none, or cannot be read."""
        try:
            stop = (self.profile_table or {}).get("stop")
        except UnreadableFile:
            return None
        target = stop.get("target_accuracy") if isinstance(stop, dict) else None
        return float(target) if isinstance(target, int | float) and not isinstance(target, bool) else None

    # ---- files

    def _has(self, name: str) -> bool:
        return self.folder is not None and (self.folder / name).is_file()

    def _struct(self, name: str, kind: type[T]) -> T | None:
        return None if self.folder is None else read_struct(self.folder / name, kind)

    def _rows(self, name: str, kind: type[Row]) -> list[Row] | None:
        return None if self.folder is None else read_rows(self.folder / name, kind)


def readable(read: Callable[[], Content | None], notes: list[str]) -> Content | None:
    """What ``read`` returns; None if its file cannot be read, which is added to ``notes``."""
    try:
        return read()
    except UserError as error:
        notes.append(f"{error}; it is left out")
        return None


def _is_in_run_folder(trace_file: Path) -> bool:
    """Whether a trace has the name that a run gives it, so that the files beside it belong to the same run."""
    return trace_file.name.removesuffix(".gz") == "trace.jsonl"
