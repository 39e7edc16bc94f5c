"""How the kernel schedules ZeroMQ's own threads, which move frames between the queues and the connections."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from testbed.common.errors import UserError


@dataclass(frozen=True, slots=True)
class IoPolicy:
    """A scheduling policy (``os.SCHED_…``) and, for SCHED_FIFO and SCHED_RR, the priority from 1 to 99.

    The default is for a thread that shares a core with the process that it serves: as a batch task, it does not
    interrupt that process for every frame.
    """

    policy: int = os.SCHED_BATCH
    priority: int = 0

    def check(self) -> None:
        """Try the policy in a thread that ends at once.

        Raises UserError if the kernel does not permit it: ZeroMQ itself would abort the process.
        """
        problems: list[OSError] = []
        thread = threading.Thread(target=self._try, args=(problems,), name="policy")
        thread.start()
        thread.join()
        if problems:
            raise UserError(
                f"ZeroMQ's thread cannot have scheduling policy {self.policy} with priority {self.priority}:"
                f" {problems[0].strerror}; raise the limit on real-time priorities (ulimit -r), or keep the default"
            )

    def _try(self, problems: list[OSError]) -> None:
        try:
            os.sched_setscheduler(0, self.policy, os.sched_param(self.priority))
        except OSError as error:
            problems.append(error)
