from __future__ import annotations

import threading

import pytest
import torch

from devices.compute.kept_memory import JobTickets, KeptMemory
from testbed.learning.training.own_training import OwnTrainingError
from testbed.wire.ticket_ranges import first_ticket


def job(kept: KeptMemory, ticket: int, arrived: int, leaves: int | None) -> int | None:
    """Run a job. Return the number that it begins with; it leaves another one."""
    memory = kept.begin(JobTickets(ticket, arrived))
    found = memory.get("number")
    if leaves is not None:
        memory["number"] = leaves
        kept.leave(JobTickets(ticket, arrived), memory)
    return found


def test_a_job_begins_with_what_the_last_arrived_job_left() -> None:
    kept = KeptMemory()
    assert job(kept, 1, 0, leaves=10) is None
    assert job(kept, 2, 1, leaves=20) == 10
    assert job(kept, 3, 2, leaves=30) == 20


def test_a_job_whose_update_did_not_arrive_leaves_nothing() -> None:
    kept = KeptMemory()
    job(kept, 1, 0, leaves=10)
    assert job(kept, 2, 1, leaves=20) == 10
    assert job(kept, 3, 1, leaves=30) == 10  # the update of job 2 was lost
    assert job(kept, 4, 3, leaves=40) == 30


def test_an_abandoned_job_leaves_nothing() -> None:
    kept = KeptMemory()
    job(kept, 1, 0, leaves=10)
    assert job(kept, 2, 1, leaves=None) == 10
    assert job(kept, 3, 1, leaves=30) == 10


def test_a_job_that_changes_its_memory_and_stops_changes_nothing() -> None:
    kept = KeptMemory()
    memory = kept.begin(JobTickets(1, 0))
    memory["moments"] = torch.ones(2)
    kept.leave(JobTickets(1, 0), memory)
    kept.begin(JobTickets(2, 1))["moments"].zero_()
    assert kept.begin(JobTickets(3, 1))["moments"].tolist() == [1.0, 1.0]


def test_a_tensor_that_changes_after_the_job_was_copied() -> None:
    kept, tensor = KeptMemory(), torch.ones(2)
    kept.leave(JobTickets(1, 0), {"weights": tensor})
    tensor.zero_()
    assert kept.begin(JobTickets(2, 1))["weights"].tolist() == [1.0, 1.0]


def test_another_giver_of_tickets_begins_with_an_empty_memory() -> None:
    kept = KeptMemory()
    job(kept, 1, 0, leaves=10)
    assert job(kept, first_ticket(1), 1, leaves=None) is None


def test_memories_of_jobs_that_ended_long_ago_are_not_kept() -> None:
    kept = KeptMemory()
    for ticket in range(1, 100):
        job(kept, ticket, ticket - 1, leaves=ticket)
    assert len(kept._by_ticket) == 2


def test_what_cannot_be_copied_is_named() -> None:
    with pytest.raises(OwnTrainingError, match="what a job keeps for the next one cannot be copied: TypeError"):
        KeptMemory().leave(JobTickets(1, 0), {"lock": threading.Lock()})


def test_an_optimiser_is_refused_because_its_copy_would_train_copies_of_the_parameters() -> None:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
    with pytest.raises(OwnTrainingError, match="keep its state_dict"):
        KeptMemory().leave(JobTickets(1, 0), {"optimizer": optimiser})
