"""A process that a template has forked, as its launcher sees it."""

from __future__ import annotations

import contextlib
import os
import signal


class RunProcess:
    """A process of a run. ``exitcode`` is None while it lives; negative: the signal that ended it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exitcode: int | None = None

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        if self.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
