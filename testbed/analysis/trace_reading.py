"""Finding the trace of a run by its folder or file, and reading it with checks for files that users name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from testbed.common.errors import NotARun, UserError
from testbed.history import trace
from testbed.history.trace import Event, TraceError
from testbed.wire.ticket_ranges import range_of

_NAMES = ("trace.jsonl", "trace.jsonl.gz")
_UNKNOWN = "its schema and units are unknown; use the whole trace of the run"
_ORDERED = frozenset((trace.Dispatched, trace.Arrived, trace.Aggregated))
"""Events of the aggregator: their times never decrease. Reports of devices and cluster heads may come in any order."""


def is_run(place: Path) -> bool:
    """Whether a user names a run, not a recorded rate or availability."""
    return place.is_dir() or place.name.removesuffix(".gz").endswith(".jsonl")


def file_of(place: Path) -> Path:
    """The trace file of a run folder, or ``place`` itself if it is one. Raises NotARun if there is none."""
    if not place.exists():
        raise NotARun(f"{place}: there is no such run folder or trace; runs are in runs/, or in the folder of --out")
    if place.is_file():
        if not is_run(place):
            raise NotARun(f"{place}: is a file, but no trace of a run (.jsonl, .jsonl.gz); name the folder of a run")
        return place
    found = _in_folder(place)
    if found is None:
        raise NotARun(f"{place}: has no trace.jsonl; name the folder of a run, such as runs/NAME-YYYYmmdd-HHMMSS")
    return found


def torn_note(path: Path, line: int) -> str:
    """A sentence about the last line of a trace, which a crash has torn."""
    return f"{path}, line {line}: is torn, as a crash leaves it; it is left out"


def has_trace(folder: Path) -> bool:
    return _in_folder(folder) is not None


def _in_folder(folder: Path) -> Path | None:
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


def events(path: Path, torn: Callable[[int], None] = lambda line: None) -> Iterator[Event]:
    """The events of a trace file. Raises UserError if its times run backwards or it has no header."""
    number, last = 0, 0.0
    begun, heads = False, set[int]()
    try:
        for number, event in enumerate(trace.read(path, torn), 1):
            if not begun and not isinstance(event, trace.Refusal):
                if not isinstance(event, trace.Header):
                    raise UserError(f"{path}, line {number}: no header comes before it, so that {_UNKNOWN}")
                begun = True
            if isinstance(event, trace.Grouped):
                heads.add(event.ticket_range)
            if type(event) in _ORDERED and range_of(getattr(event, "ticket", 0)) not in heads:
                if event.t < last:
                    problem = f"t is {event.t:.12g}, after {last:.12g}: times run backwards"
                    raise TraceError(f"{path}, line {number}: {problem}")
                last = event.t
            yield event
    except (TraceError, OSError) as error:
        cut = ", or cut the trace off before that line" if begun else ""
        raise UserError(f"{error}; choose another run{cut}") from None
