"""The seconds that the spans of one device cover together; spans may overlap."""

from __future__ import annotations

from array import array

import numpy as np

_KEPT = 256
"""Spans that are kept until later ones are known: those of a device come nearly in the order of their starts."""


class Occupied:
    """Adds up what spans cover from ``since`` on, in bounded memory.

    A span that began before the last 256 spans of its device counts only from the end of those before them.
    """

    def __init__(self, since: float) -> None:
        self._since = self._covered = since
        """Until when everything is counted."""
        self._seconds = 0.0
        self._bounds = array("d")
        """Start and end of each span that is not counted yet, one after another."""

    def add(self, start: float, end: float) -> None:
        self._bounds.append(start)
        self._bounds.append(end)
        if len(self._bounds) >= 4 * _KEPT:
            self._count(_KEPT)

    def until(self, ended: float) -> float:
        """The seconds that are covered up to ``ended``."""
        spans = np.array(self._bounds).reshape(-1, 2)
        return self._seconds + self._new_seconds(np.clip(spans, self._since, max(self._since, ended)))[0]

    def _count(self, kept: int) -> None:
        spans = np.array(self._bounds).reshape(-1, 2)
        spans = spans[np.argsort(spans[:, 0], kind="stable")]
        seconds, self._covered = self._new_seconds(np.maximum(spans[:-kept], self._since))
        self._seconds += seconds
        self._bounds = array("d", spans[-kept:].ravel())

    def _new_seconds(self, spans: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> tuple[float, float]:
        """The seconds of these spans that are not counted yet, and until when everything is counted with them."""
        spans = spans[np.argsort(spans[:, 0])]
        covered = np.maximum.accumulate(np.concatenate([[self._covered], spans[:, 1]]))
        seconds = np.maximum(0.0, spans[:, 1] - np.maximum(spans[:, 0], covered[:-1])).sum()
        return float(seconds), float(covered[-1])
