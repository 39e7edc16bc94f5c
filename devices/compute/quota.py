"""Throttle a worker by signals: SIGSTOP when it has used more than its share of a core, SIGCONT after a while."""

from __future__ import annotations

import math

from devices.compute.worker import Worker

_PERIOD_SECONDS = 0.02
"""About the time from one SIGCONT to the next."""
_LEAST_SECONDS = 0.002
"""Less time on the core than this is mostly spent on switching."""


class SignalQuota:
    """Keeps the CPU seconds of a worker's job at ``share`` of the seconds that have passed. All are host seconds."""

    def __init__(self, worker: Worker, share: float) -> None:
        self._worker, self._share = worker, share
        self._slice = max(_LEAST_SECONDS, share * _PERIOD_SECONDS)
        self._began: float | None = None
        self._cpu = 0.0
        self.due = math.inf
        """When :meth:`act` should be called next."""

    def act(self, now: float) -> None:
        """Stop the worker or let it continue, by the CPU seconds of its job so far."""
        if not self._worker.is_computing:
            self._began, self.due = None, math.inf
            return
        usage = self._worker.usage()
        assert usage is not None  # admission rejects a quota without schedstat
        if self._began is None:
            self._began, self._cpu = now, usage.cpu
        earned = self._began + (usage.cpu - self._cpu) / self._share
        ahead = earned > now
        self._worker.throttle(ahead)
        self.due = earned if ahead else now + self._slice
