"""One pass over the trace of a run: totals, rounds, and whatever else takes its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from testbed.analysis.round_metrics import RoundCounter
from testbed.analysis.timeline import Span
from testbed.analysis.totals import Totals, TotalsCounter
from testbed.common.files.spool import RowSpool
from testbed.history.event_pass import Checker, pass_events
from testbed.history.trace import Event
from testbed.runs.results.table_rows import RoundRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceScan:
    """What one pass over a trace counted."""

    total: Totals
    rounds: RowSpool[RoundRow]


def scan(events: Iterable[Event], *checkers: Checker, listeners: Iterable[Callable[[Span], None]] = ()) -> TraceScan:
    """Pass the events to ``checkers`` and to those that count totals and rounds; ``listeners`` take spans of devices.

    Raises KeyError or ValueError if the events contradict each other.
    """
    counter, rounds = TotalsCounter(), RoundCounter()
    counter.timeline.listeners.extend(listeners)
    pass_events(events, *counter.checkers, rounds, *checkers)
    return TraceScan(total=counter.close(), rounds=rounds.rows)
