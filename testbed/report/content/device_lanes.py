"""The timeline of a fleet, reduced to a fixed number of columns: the state that fills most of each column.

An hour of 500 devices has a million spans, too many to see or to draw in a browser. A drop is an instant and would
never fill most of a column: drops are kept separately.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.analysis.timeline import STATES, Span
from testbed.history import trace
from testbed.history.event_pass import Handlers

IDLE = "idle"
LANE_STATES = (IDLE, *STATES)
"""The possible states of a cell, which contains their index."""
_NUMBERS = {state: number for number, state in enumerate(LANE_STATES)}
COLUMNS = 1200
_MOST_MARKS = 40_000

Cells = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """One lane for each device, in the order of the fleet."""

    devices: tuple[str, ...]
    seconds: float
    cells: Cells
    """Lane × column → index of the state."""
    shares: npt.NDArray[np.float64]
    """State × lane → the share of the time of its spans, exactly, not by cells. Each of several overlapping spans
    counts in full, so that the sum may exceed 1; idle is the part of each column without a span.
    """
    drops: tuple[tuple[int, float], ...]
    """Lane and moment of lost transfers; of marks that would overlap, only the first."""
    dropped: int
    """The number of all lost transfers."""
    scripted: tuple[trace.Scripted, ...]


class TimelineBuilder:
    """Collects the spans of all devices while the events of a trace pass; in arrays, for millions of spans.

    It is a checker, and ``add`` takes the spans of a :class:`testbed.analysis.timeline.Timeline`.
    """

    def __init__(self) -> None:
        self._devices: dict[str, int] = {}
        """Device → its index in the arrays."""
        self._who, self._states, self._starts, self._ends = array("l"), array("l"), array("d"), array("d")
        self._lost: list[tuple[str, float]] = []
        self._scripted: list[trace.Scripted] = []

    def handlers(self) -> Handlers:
        return {
            trace.Downloaded: self._transferred,
            trace.Uploaded: self._transferred,
            trace.Scripted: self._scripted.append,
        }

    def _transferred(self, event: trace.TransferEvent) -> None:
        if event.dropped:  # not by spans: a transfer with an absence has several
            self._lost.append((event.device, event.sent + event.obtained))

    def add(self, span: Span) -> None:
        self._who.append(self._devices.setdefault(span.device, len(self._devices)))
        self._states.append(_NUMBERS[span.state])
        self._starts.append(span.start)
        self._ends.append(span.end)

    def lanes(self, devices: Sequence[str], seconds: float, columns: int = COLUMNS) -> Lanes:
        """The lanes of ``devices`` in a run of ``seconds``, after all events and spans have passed."""
        lane_of = {device: lane for lane, device in enumerate(devices)}
        filled = self._filled(lane_of, seconds, columns)
        filled[0] = 1.0 - filled.sum(axis=0)  # idle is the rest; negative where spans overlap
        lost = sorted((lane_of[device], moment) for device, moment in self._lost if device in lane_of)
        return Lanes(
            devices=tuple(devices),
            seconds=seconds,
            cells=filled.argmax(axis=0).astype(np.uint8),
            shares=np.maximum(filled, 0.0).mean(axis=2),
            drops=_apart(lost, len(devices), seconds),
            dropped=len(lost),
            scripted=tuple(event for event in self._scripted if event.device in lane_of),
        )

    def _filled(self, lane_of: dict[str, int], seconds: float, columns: int) -> npt.NDArray[np.float64]:
        """State × lane × column → the share of the column that it fills.

        The two ends of a span fill parts of columns. The columns between them are full: a cumulative sum over +1 where
        they begin and −1 where they end.
        """
        parts, whole = (np.zeros((len(LANE_STATES), len(lane_of), columns + 2)) for _ in range(2))
        lane = np.array([lane_of.get(device, -1) for device in self._devices], dtype=int)[np.asarray(self._who)]
        known = lane >= 0
        if seconds > 0 and known.any():
            lane, state = lane[known], np.asarray(self._states)[known]
            start, end = (
                np.clip(np.asarray(moments)[known] * columns / seconds, 0.0, columns)
                for moments in (self._starts, self._ends)
            )
            first, last = start.astype(int), end.astype(int)
            inside = first == last
            np.add.at(parts, (state, lane, first), np.where(inside, end, first + 1) - start)
            np.add.at(parts, (state, lane, last), np.where(inside, 0.0, end - last))
            np.add.at(whole, (state, lane, first + 1), np.where(inside, 0.0, 1.0))
            np.add.at(whole, (state, lane, last), np.where(inside, 0.0, -1.0))
        filled: npt.NDArray[np.float64] = (parts + np.cumsum(whole, axis=-1))[..., :columns]
        return filled


def _apart(lost: Iterable[tuple[int, float]], devices: int, seconds: float) -> tuple[tuple[int, float], ...]:
    """At most one mark per lane and place; with many lanes there are fewer places."""
    places = max(20, min(COLUMNS // 3, _MOST_MARKS // max(1, devices)))
    found: dict[tuple[int, int], tuple[int, float]] = {}
    for lane, moment in lost:
        if 0 < moment <= seconds:
            found.setdefault((lane, int(moment / seconds * places)), (lane, moment))
    return tuple(found.values())
