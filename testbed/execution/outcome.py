"""How a run ended, and what it left: the command prints it, the Python API returns it as a run or raises it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from testbed.runs.results.summary import Summary


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The end of a run that began. Whatever went wrong, the files in ``folder`` are kept."""

    folder: Path
    failure: str | None = None
    """Why the run ended early, in a sentence; None if it did not."""
    unreadable: str | None = None
    """Why there are no results, if the trace cannot be read."""
    signal: int | None = None
    """The signal that ended it, if one did."""
    summary: Summary | None = None
    """None if there are no results: the trace cannot be read, or a resumed run was stopped before it continued."""
    unwritten: dict[str, str] = field(default_factory=dict)
    """Result file → why it could not be written."""
    resumable: bool = False
    """Whether ``resume`` can continue it."""
    warnings: list[str] = field(default_factory=list)
    """What else did not succeed: packing the trace, drawing the report."""
    report: Path | None = None
    departure: str | None = None
    """For a strict replay: how it differs from the recorded run; None if it does not."""

    @property
    def is_complete(self) -> bool:
        """Whether the run ended as its profile says, and all its files were written."""
        return self.failure is None and self.unreadable is None and not self.unwritten and self.signal is None

    @property
    def exit_code(self) -> int:
        """0: done; 1: the run failed, a file is missing, or a strict replay differs; 128 + the signal that ended it."""
        if self.failure is not None or self.unreadable is not None or self.unwritten:
            return 1
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.departure is not None else 0
