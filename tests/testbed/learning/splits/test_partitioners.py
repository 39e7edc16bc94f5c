"""Splits that other frameworks have as partitioners: degrees and sizes by their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.common.parameters import ParameterError
from testbed.learning.data.dataset import Subset
from testbed.learning.splits.dirichlet import Dirichlet
from testbed.learning.splits.growing_sizes import GrowingSizes
from testbed.learning.splits.inner_dirichlet import InnerDirichlet
from testbed.learning.splits.pathological import Pathological
from testbed.learning.splits.shards import Shards
from testbed.learning.splits.split import Split
from tests.testbed.learning.splits.parts import classes, counts, part, rng, sizes, values


def refusal(split: Split, data: Subset, devices: int) -> tuple[str, str]:
    with pytest.raises(ParameterError) as caught:
        split.assign(data, devices, rng())
    return caught.value.key, caught.value.problem


# ---- growing sizes


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        ("linear", [10, 20, 30, 40]),
        ("square", [3, 13, 30, 54]),  # 100 · (1, 4, 9, 16) / 30, rounded down; the last has the rest
        ("exponential", [3, 8, 23, 66]),  # 100 · (e, e², e³, e⁴) / 84.79
    ],
)
def test_sizes_grow_as_their_series(growth: str, expected: list[int]) -> None:
    assert sizes(GrowingSizes(growth=growth).assign(classes(100), 4, rng())) == expected


@pytest.mark.parametrize("devices", [15, 1000])
def test_the_smallest_share_of_an_exponential_series_has_a_sample(devices: int) -> None:
    shards = GrowingSizes(growth="exponential").assign(classes(2000), devices, rng())
    assert min(sizes(shards)) == 1
    assert sum(sizes(shards)) == 2000


def test_growing_shares_fit_where_each_device_has_one_sample() -> None:
    assert sizes(GrowingSizes(growth="square").assign(classes(7), 7, rng())) == [1] * 7


def test_the_labels_of_growing_shares_are_those_of_all() -> None:
    table = counts(GrowingSizes().assign(data := classes(20_000), 4, rng()), data)
    assert np.abs(table / table.sum(axis=1, keepdims=True) - 0.1).max() < 0.03


# ---- shards


def test_a_device_has_as_many_shards_as_wanted_each_of_adjacent_labels() -> None:
    data = classes(600)  # 60 of each label, and 20 shards of 30
    table = counts(Shards().assign(data, 10, rng()), data)
    assert (table.sum(axis=1) == 60).all()
    assert ((table > 0).sum(axis=1) <= 2).all()
    assert set(table[table > 0].tolist()) <= {30, 60}


def test_shards_are_drawn_from_all_if_they_are_small() -> None:
    data = classes(600)
    shards = Shards(per_device=1, size=6).assign(data, 10, rng())
    assert sizes(shards) == [6] * 10
    assert len(np.unique(data.labels[np.concatenate(shards)])) > 3  # the first sixty samples would have one label


def test_shards_that_need_too_many_samples_are_refused() -> None:
    assert refusal(Shards(size=31), classes(600), 10) == (
        "size",
        "is 31; 20 shards can have at most 30 each of 600 training samples: set it lower, or use fewer devices",
    )
    assert refusal(Shards(per_device=9), classes(60), 10) == (
        "per_device",
        "is 9; 10 devices can have at most 6 each of 60 training samples: set it lower, or use fewer devices",
    )


# ---- pathological


@pytest.mark.parametrize("assignment", ["random", "first-deterministic", "deterministic"])
@pytest.mark.parametrize("per_device", [1, 2, 7, 10])
def test_a_device_has_exactly_k_labels(assignment: str, per_device: int) -> None:
    data = classes(1000)
    table = counts(Pathological(per_device=per_device, assignment=assignment).assign(data, 12, rng()), data)
    assert ((table > 0).sum(axis=1) == per_device).all()
    for label in table.T:
        shared = label[label > 0]
        assert len(shared) == 0 or shared.max() - shared.min() <= 1


def test_labels_may_follow_from_the_number_of_the_device() -> None:
    data = classes(1000)
    table = counts(Pathological(per_device=3, assignment="deterministic").assign(data, 12, rng()), data)
    assert [np.flatnonzero(row).tolist() for row in table[[0, 8, 11]]] == [[0, 1, 2], [0, 8, 9], [1, 2, 3]]


def test_the_first_label_may_follow_from_the_number_of_the_device() -> None:
    data = classes(1000)
    table = counts(Pathological(per_device=2, assignment="first-deterministic").assign(data, 12, rng()), data)
    assert all(table[device, device % 10] for device in range(12))


def test_random_labels_may_leave_some_out() -> None:
    data = classes(1000)
    shards = Pathological(per_device=1).assign(data, 3, rng())
    assert sum(sizes(shards)) == 100 * len({int(data.labels[shard[0]]) for shard in shards})


def test_impossible_numbers_of_labels_are_refused() -> None:
    assert refusal(Pathological(per_device=11), classes(1000), 3) == (
        "per_device",
        "is 11; the data has 10 classes: at most 10",
    )
    few = part(np.array([0] * 50 + [1] * 2, np.uint8))
    problem = "is 2, so 3 devices share label 1, which has 2 samples: set it lower, or use fewer devices"
    assert refusal(Pathological(), few, 3) == ("per_device", problem)
    assert refusal(Pathological(), values(50), 3)[0] == "name"


# ---- inner dirichlet


def test_devices_have_the_given_sizes() -> None:
    assert sizes(InnerDirichlet(sizes=(5, 50, 20)).assign(classes(100), 3, rng())) == [5, 50, 20]
    assert sizes(InnerDirichlet().assign(classes(101), 3, rng())) == [34, 34, 33]


def test_a_small_alpha_gives_few_labels_and_a_large_one_all() -> None:
    data = classes(20_000)
    sparse, even = (InnerDirichlet(alpha=alpha, sizes=(50,) * 20) for alpha in (0.01, 1000.0))
    assert ((counts(sparse.assign(data, 20, rng()), data) > 0).sum(axis=1)).mean() < 2.5
    assert ((counts(even.assign(data, 20, rng()), data) > 0).sum(axis=1)).mean() > 9.5


def test_shares_of_inner_dirichlet_have_the_variance_of_a_dirichlet_distribution() -> None:
    data, alpha = classes(100_000), 0.5
    shards = InnerDirichlet(alpha=alpha, sizes=(200,) * 200).assign(data, 200, rng())
    shares = counts(shards, data) / 200
    # of q: mean 1/10, variance (1/10)(9/10)/(10α + 1); a sample of 200 adds (mean − E[q²])/200
    variance = 0.09 / (10 * alpha + 1)
    assert shares.mean() == pytest.approx(0.1)
    assert shares.var() == pytest.approx(variance + (0.1 - variance - 0.01) / 200, rel=0.1)


def test_unfit_sizes_are_refused() -> None:
    assert refusal(InnerDirichlet(sizes=(5, 6)), classes(100), 3) == (
        "sizes",
        "has 2 numbers for 3 devices; give one for each",
    )
    assert refusal(InnerDirichlet(sizes=(50, 51)), classes(100), 2) == (
        "sizes",
        "adds up to 101; there are 100 training samples: at most 100",
    )


# ---- dirichlet


def test_a_capped_device_gets_nothing_of_further_labels() -> None:
    data = part(np.repeat(np.arange(4, dtype=np.uint8), 100))
    table = counts(Dirichlet(alpha=0.3, capped=True).assign(data, 5, rng(3)), data)
    before = np.cumsum(table, axis=1)[:, :-1]
    assert (before > 80).any()
    assert not table[:, 1:][before > 80].any()


def test_a_skew_of_quantity_has_the_same_labels_everywhere() -> None:
    data = classes(20_000)
    table = counts(Dirichlet(alpha=1.0, quantity=True).assign(data, 5, rng()), data)
    large = table[table.sum(axis=1) > 1000]
    assert np.ptp(table.sum(axis=1)) > 1000
    assert np.abs(large / large.sum(axis=1, keepdims=True) - 0.1).max() < 0.03


@pytest.mark.parametrize("key", ["capped", "quantity"])
def test_balanced_shares_are_neither_capped_nor_of_different_quantity(key: str) -> None:
    changes: dict[str, bool] = {key: True}
    assert refusal(Dirichlet(balanced=True, **changes), classes(100), 5)[0] == key  # type: ignore[arg-type]
