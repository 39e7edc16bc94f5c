from __future__ import annotations

import pytest

from testbed.common.errors import ProfileError
from testbed.common.parameters import build
from testbed.wire.training_job import Job


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
        (Job(steps=10, batch=0), 5, 10),
        (Job(steps=10, epochs=2, batch=0), 5, 2),
        (Job(steps=10, epochs=2, batch=0), 25_000, 2),
    ],
)
def test_a_job_has_its_number_of_steps_or_of_epochs_over_the_samples(job: Job, samples: int, steps: int) -> None:
    assert job.steps_over(samples) == steps


@pytest.mark.parametrize(
    ("steps", "seen"), [(0, 0), (1, 4), (2, 8), (3, 10), (4, 14), (6, 20)], ids=lambda number: f"{number}"
)
def test_the_last_batch_of_an_epoch_is_short(steps: int, seen: int) -> None:
    assert Job(batch=4).samples_after(steps, samples=10) == seen


def test_a_batch_that_is_larger_than_the_data_is_all_of_the_data() -> None:
    assert Job(batch=32).samples_after(3, samples=10) == 30


@pytest.mark.parametrize(("steps", "seen"), [(0, 0), (1, 10), (3, 30)])
def test_a_batch_of_zero_is_all_of_the_data(steps: int, seen: int) -> None:
    assert Job(batch=0).samples_after(steps, samples=10) == seen


@pytest.mark.parametrize(("batch", "samples", "size"), [(4, 10, 4), (10, 10, 10), (32, 10, 10), (0, 10, 10), (0, 1, 1)])
def test_a_step_has_the_samples_of_a_batch_or_all_of_the_device(batch: int, samples: int, size: int) -> None:
    assert Job(batch=batch).samples_per_step(samples) == size


@pytest.mark.parametrize(("batch", "largest"), [(4, 4), (20, 20), (32, 30), (0, 30)])
def test_the_largest_step_of_a_fleet_is_that_of_the_device_with_the_most_samples(batch: int, largest: int) -> None:
    assert Job(batch=batch).largest_step([10, 30, 3]) == largest


def test_a_batch_of_zero_is_allowed_and_a_negative_one_is_not() -> None:
    assert build(Job, {"batch": 0}, "p.toml").batch == 0
    with pytest.raises(ProfileError, match="at least 0"):
        build(Job, {"batch": -1}, "p.toml")


@pytest.mark.parametrize(
    ("batch", "samples", "epochs"),
    [
        (4, 10, [0, 0, 0, 1, 1, 1, 2]),  # the last batch of an epoch is short
        (5, 10, [0, 0, 1, 1, 2, 2, 3]),
        (10, 10, [0, 1, 2, 3, 4, 5, 6]),
        (32, 10, [0, 1, 2, 3, 4, 5, 6]),
        (9, 10, [0, 0, 1, 1, 2, 2, 3]),
        (1, 3, [0, 0, 0, 1, 1, 1, 2]),
        (0, 10, [0, 1, 2, 3, 4, 5, 6]),  # all of the data is an epoch
    ],
)
def test_the_inverse_sqrt_schedule_changes_the_learning_rate_with_each_epoch(
    batch: int, samples: int, epochs: list[int]
) -> None:
    job = Job(batch=batch, lr=0.5, lr_schedule="inverse-sqrt")
    rates = {0: 0.5, 1: 0.5 / 2**0.5, 2: 0.5 / 3**0.5, 3: 0.25, 4: 0.5 / 5**0.5, 5: 0.5 / 6**0.5, 6: 0.5 / 7**0.5}
    assert [job.lr_at(step, samples) for step in range(7)] == pytest.approx([rates[epoch] for epoch in epochs])


def test_a_constant_learning_rate_is_the_same_in_every_step() -> None:
    assert {Job(batch=4, lr=0.5).lr_at(step, 10) for step in range(20)} == {0.5}


def test_a_decay_changes_the_learning_rate_from_job_to_job_and_not_within_one() -> None:
    job = Job(batch=4, lr=0.5, lr_decay=0.9)
    for number, rate in enumerate((0.5, 0.45, 0.405, 0.3645)):
        assert [job.lr_at(step, 10, number) for step in range(20)] == pytest.approx([rate] * 20)


def test_schedule_and_decay_of_the_learning_rate_can_be_combined() -> None:
    job = Job(batch=0, lr=0.5, lr_decay=0.9, lr_schedule="inverse-sqrt")
    assert [job.lr_at(step, 10, 2) for step in (0, 1, 3)] == pytest.approx([0.405, 0.405 / 2**0.5, 0.2025])


def test_a_learning_rate_that_decays_for_very_long_is_zero() -> None:
    assert Job(lr_decay=0.5).lr_at(0, 10, 10**9) == 0.0


@pytest.mark.parametrize("decay", [0.0, -0.5, 1.01])
def test_a_decay_must_be_above_zero_and_at_most_one(decay: float) -> None:
    with pytest.raises(ProfileError, match="lr_decay"):
        build(Job, {"lr_decay": decay}, "p.toml")
