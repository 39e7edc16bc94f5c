"""What a device keeps from job to job for its training: the state of an optimiser, statistics of a network.

Theory of operation
    A job begins with what the last job whose update reached the strategy left behind, and nothing else: a job that was
    stopped, given up or rejected leaves nothing. Each Train names that job (``Train.arrived``), as for the residual of
    compression (``testbed.wire.error_feedback``). So the memory of a job follows from the recorded arrivals, and
    ``verify`` can compute it again. A new process begins with an empty memory, and so does another giver of tickets: a
    new cluster (EAFL).
"""

from __future__ import annotations

import copy
from typing import NamedTuple

from testbed.common.finders.user_code import in_one_line
from testbed.learning.training.own_training import OwnTrainingError, check_memory
from testbed.learning.training.task import Memory
from testbed.wire.ticket_ranges import range_of


class JobTickets(NamedTuple):
    """Which memory a job begins with, and under which ticket it leaves its own."""

    ticket: int
    arrived: int
    """The last ticket of this device, from the same giver, whose update reached the strategy; 0: none."""


class KeptMemory:
    """The memories of one device."""

    def __init__(self) -> None:
        self._by_ticket: dict[int, Memory] = {}

    def begin(self, tickets: JobTickets) -> Memory:
        """Return a copy of the memory that a job begins with, for the job to change."""
        same_giver = range_of(tickets.arrived) == range_of(tickets.ticket)
        found = self._by_ticket.get(tickets.arrived) if same_giver else None
        self._by_ticket = {} if found is None else {tickets.arrived: found}
        return {} if found is None else copy.deepcopy(found)

    def leave(self, tickets: JobTickets, memory: Memory) -> None:
        """Keep a copy of what a job leaves behind, in case that its update reaches the strategy.

        The tensors of a network change with the next job. Raises OwnTrainingError.
        """
        if not memory:
            return
        check_memory(memory)
        try:
            self._by_ticket[tickets.ticket] = copy.deepcopy(memory)
        except Exception as error:  # any class may be in there
            problem = f"what a job keeps for the next one cannot be copied: {in_one_line(error)}"
            raise OwnTrainingError(problem) from error
