from __future__ import annotations

import pytest

from testbed.messages import Job


@pytest.mark.parametrize(
    ("job", "samples", "steps"),
    [
        (Job(steps=10, batch=32), 1, 10),
        (Job(steps=10, batch=32), 1000, 10),
        (Job(steps=10, epochs=1, batch=32), 64, 2),
        (Job(steps=10, epochs=1, batch=32), 65, 3),
        (Job(steps=10, epochs=3, batch=32), 65, 9),
        (Job(steps=10, epochs=2, batch=32), 5, 2),
        (Job(steps=10, epochs=2, batch=1), 5, 10),
        (Job(steps=10, epochs=2, batch=32), 0, 0),
    ],
)
def test_a_job_takes_its_steps_or_its_epochs_over_the_samples(job: Job, samples: int, steps: int) -> None:
    assert job.steps_over(samples) == steps


@pytest.mark.parametrize(
    ("steps", "seen"), [(0, 0), (1, 4), (2, 8), (3, 10), (4, 14), (6, 20)], ids=lambda number: f"{number}"
)
def test_the_last_batch_of_an_epoch_is_short(steps: int, seen: int) -> None:
    assert Job(batch=4).samples_after(steps, samples=10) == seen


def test_a_batch_larger_than_the_data_is_all_of_it() -> None:
    assert Job(batch=32).samples_after(3, samples=10) == 30
