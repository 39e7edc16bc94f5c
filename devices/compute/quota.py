"""Throttling a worker by signals: SIGSTOP when it has had more than its share of a core, SIGCONT when it may go on."""

from __future__ import annotations

import math

from devices.compute.worker import Worker

_TURN_SECONDS = 0.02
"""About so long from one SIGCONT to the next."""
_LEAST_SECONDS = 0.002
"""A turn on the core that is shorter than this is mostly switching."""


class SignalQuota:
    """Keeps the CPU seconds of a worker's job at ``share`` of the seconds that have passed. Host seconds throughout."""

    def __init__(self, worker: Worker, share: float) -> None:
        self._worker, self._share = worker, share
        self._turn = max(_LEAST_SECONDS, share * _TURN_SECONDS)
        self._began: float | None = None
        self._cpu = 0.0
        self.due = math.inf
        """When :meth:`act` is next wanted."""

    def act(self, now: float) -> None:
        """Stop the worker or let it go on, by what it has had so far."""
        if not self._worker.is_computing:
            self._began, self.due = None, math.inf
            return
        usage = self._worker.usage()
        assert usage is not None  # without schedstat the run was refused
        if self._began is None:
            self._began, self._cpu = now, usage.cpu
        earned = self._began + (usage.cpu - self._cpu) / self._share
        ahead = earned > now
        self._worker.hold_back(ahead)
        self.due = earned if ahead else now + self._turn
