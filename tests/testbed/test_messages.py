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


@pytest.mark.parametrize(
    ("batch", "samples", "epochs"),
    [
        (4, 10, [0, 0, 0, 1, 1, 1, 2]),  # the last batch of an epoch is short
        (5, 10, [0, 0, 1, 1, 2, 2, 3]),
        (10, 10, [0, 1, 2, 3, 4, 5, 6]),
        (32, 10, [0, 1, 2, 3, 4, 5, 6]),
        (9, 10, [0, 0, 1, 1, 2, 2, 3]),
        (1, 3, [0, 0, 0, 1, 1, 1, 2]),
    ],
)
def test_a_rate_that_falls_does_so_from_epoch_to_epoch(batch: int, samples: int, epochs: list[int]) -> None:
    job = Job(batch=batch, lr=0.5, lr_schedule="inverse-sqrt")
    rates = {0: 0.5, 1: 0.5 / 2**0.5, 2: 0.5 / 3**0.5, 3: 0.25, 4: 0.5 / 5**0.5, 5: 0.5 / 6**0.5, 6: 0.5 / 7**0.5}
    assert [job.lr_at(step, samples) for step in range(7)] == pytest.approx([rates[epoch] for epoch in epochs])


def test_a_rate_that_does_not_fall_is_the_same_in_every_step() -> None:
    assert {Job(batch=4, lr=0.5).lr_at(step, 10) for step in range(20)} == {0.5}
