"""The timeline of a fleet, reduced to a fixed number of columns: the state that fills most of each column.

An hour of 500 devices has a million spans, too many to see or to draw in a browser. A drop is an instant and would
never fill most of a column: drops are kept separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.analysis.timeline import STATES, Span
from testbed.common.files.spool import Spool
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
    """Collects the spans of all devices while the events of a trace pass; in files, for millions of spans.

    It is a checker, and ``add`` takes the spans of a :class:`testbed.analysis.timeline.Timeline`.
    """

    def __init__(self) -> None:
        self._devices: dict[str, int] = {}
        """Device → its number."""
        self._spans = Spool(4)
        """Number of the device, number of the state, start and end of each span."""
        self._lost = Spool(2)
        """Number of the device, and moment of each lost transfer."""
        self._scripted: list[trace.Scripted] = []

    def handlers(self) -> Handlers:
        return {
            trace.Downloaded: self._transferred,
            trace.Uploaded: self._transferred,
            trace.Scripted: self._scripted.append,
        }

    def _transferred(self, event: trace.TransferEvent) -> None:
        if event.dropped:  # not by spans: a transfer with an absence has several
            self._lost.add(self._number(event.device), event.sent + event.obtained)

    def add(self, span: Span) -> None:
        self._spans.add(self._number(span.device), _NUMBERS[span.state], span.start, span.end)

    def _number(self, device: str) -> int:
        return self._devices.setdefault(device, len(self._devices))

    def lanes(self, devices: Sequence[str], seconds: float, columns: int = COLUMNS) -> Lanes:
        """The lanes of ``devices`` in a run of ``seconds``, after all events and spans have passed."""
        lane_of = {device: lane for lane, device in enumerate(devices)}
        filled = self._filled(lane_of, seconds, columns)
        filled[0] = 1.0 - filled.sum(axis=0)  # idle is the rest; negative where spans overlap
        lane = np.array([lane_of.get(device, -1) for device in self._devices], dtype=int)
        marks, dropped = _apart(self._lost, lane, len(devices), seconds)
        return Lanes(
            devices=tuple(devices),
            seconds=seconds,
            cells=filled.argmax(axis=0).astype(np.uint8),
            shares=np.maximum(filled, 0.0).mean(axis=2),
            drops=marks,
            dropped=dropped,
            scripted=tuple(event for event in self._scripted if event.device in lane_of),
        )

    def _filled(self, lane_of: dict[str, int], seconds: float, columns: int) -> npt.NDArray[np.float64]:
        """State × lane × column → the share of the column that it fills.

        The two ends of a span fill parts of columns. The columns between them are full: a cumulative sum over +1 where
        they begin and −1 where they end.
        """
        parts, whole = (np.zeros((len(LANE_STATES), len(lane_of), columns + 2)) for _ in range(2))
        lanes = np.array([lane_of.get(device, -1) for device in self._devices], dtype=int)
        for block in self._spans.blocks() if seconds > 0 else ():
            lane = lanes[block[:, 0].astype(int)]
            known = lane >= 0
            lane, state = lane[known], block[known, 1].astype(int)
            start, end = (np.clip(block[known, column] * columns / seconds, 0.0, columns) for column in (2, 3))
            first, last = start.astype(int), end.astype(int)
            inside = first == last
            np.add.at(parts, (state, lane, first), np.where(inside, end, first + 1) - start)
            np.add.at(parts, (state, lane, last), np.where(inside, 0.0, end - last))
            np.add.at(whole, (state, lane, first + 1), np.where(inside, 0.0, 1.0))
            np.add.at(whole, (state, lane, last), np.where(inside, 0.0, -1.0))
        filled: npt.NDArray[np.float64] = (parts + np.cumsum(whole, axis=-1))[..., :columns]
        return filled


def _apart(
    lost: Spool, lanes: npt.NDArray[np.int64], devices: int, seconds: float
) -> tuple[tuple[tuple[int, float], ...], int]:
    """At most one mark per lane and place, the earliest; and how many there are. With many lanes, places are fewer."""
    places = max(20, min(COLUMNS // 3, _MOST_MARKS // max(1, devices)))
    found: dict[tuple[int, int], float] = {}
    count = 0
    for number, moment in lost:
        lane = int(lanes[int(number)])
        count += lane >= 0
        if lane >= 0 and 0 < moment <= seconds:
            place = lane, int(moment / seconds * places)
            found[place] = min(moment, found.get(place, moment))
    return tuple((lane, found[lane, place]) for lane, place in sorted(found)), count
