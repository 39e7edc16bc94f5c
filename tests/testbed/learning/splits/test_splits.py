"""Each split: compared with results computed by hand, or by statistics."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from testbed.common.parameters import ParameterError
from testbed.learning.data.dataset import Subset
from testbed.learning.splits.dirichlet import Dirichlet
from testbed.learning.splits.iid import IID
from testbed.learning.splits.label_groups import LabelGroups
from testbed.learning.splits.labels import Labels, assign
from testbed.learning.splits.natural import Natural
from testbed.learning.splits.power_law import PowerLaw
from testbed.learning.splits.sizes import Sizes
from testbed.learning.splits.sort_and_partition import SortAndPartition
from testbed.learning.splits.split import Split
from tests.testbed.learning.splits.parts import classes, counts, part, rng, sizes, values


def refusal(split: Split, data: Subset, devices: int) -> tuple[str, str]:
    with pytest.raises(ParameterError) as caught:
        split.assign(data, devices, rng())
    return caught.value.key, caught.value.problem


# ---- iid


def test_equal_shares_differ_by_one_at_most() -> None:
    assert sizes(IID().assign(classes(103), 4, rng())) == [26, 26, 26, 25]


def test_equal_shares_are_consecutive_pieces_of_one_permutation() -> None:
    # existing profiles and benchmarks must keep their shards
    expected = [np.sort(piece) for piece in np.array_split(rng(5).permutation(50), 4)]
    assert all(map(np.array_equal, IID().assign(classes(50), 4, rng(5)), expected))


def test_shares_may_be_smaller_than_possible() -> None:
    assert sizes(IID(samples=7).assign(classes(50), 4, rng())) == [7, 7, 7, 7]


def test_all_devices_may_have_the_same_samples() -> None:
    shards = IID(identical=True, samples=25).assign(classes(60), 4, rng())
    assert sizes(shards) == [25] * 4
    assert all(np.array_equal(shards[0], shard) for shard in shards)
    shards[0][0] = 99
    assert 99 not in shards[1]


def test_all_devices_may_have_all_samples_even_if_there_are_fewer_samples_than_devices() -> None:
    assert [shard.tolist() for shard in IID(identical=True).assign(classes(3), 4, rng())] == [[0, 1, 2]] * 4


def test_more_samples_than_the_data_has_are_refused() -> None:
    assert refusal(IID(samples=26), classes(100), 4) == (
        "samples",
        "is 26; 4 devices can have at most 25 each of 100 training samples: set it lower, or use fewer devices",
    )
    same = IID(identical=True, samples=101)
    assert refusal(same, classes(100), 4) == ("samples", "is 101; there are 100 training samples: at most 100")


# ---- dirichlet


def test_the_draws_of_dirichlet_have_not_changed() -> None:
    data, draw = classes(500), rng(3)
    pieces: list[list[int]] = [[] for _ in range(6)]
    for label in range(10):
        members = draw.permutation(np.flatnonzero(data.labels == label))
        ends = np.round(np.cumsum(draw.dirichlet([0.5] * 6))[:-1] * len(members)).astype(int)
        for own, piece in zip(pieces, np.split(members, ends), strict=True):
            own += piece.tolist()
    assert [shard.tolist() for shard in Dirichlet().assign(data, 6, rng(3))] == [sorted(own) for own in pieces]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_shares_of_a_label_vary_as_a_dirichlet_distribution_does(alpha: float) -> None:
    devices, data = 5, classes(4000, labels=2)
    shares = np.concatenate(
        [counts(Dirichlet(alpha=alpha).assign(data, devices, rng(seed)), data) / 2000 for seed in range(300)]
    )
    variance = (1 / devices) * (1 - 1 / devices) / (devices * alpha + 1)
    assert np.mean(shares) == pytest.approx(1 / devices)
    assert np.var(shares) == pytest.approx(variance, rel=0.1)


def test_dirichlet_makes_uneven_shares_of_values() -> None:
    few, many = (np.ptp(sizes(Dirichlet(alpha=alpha).assign(values(1000), 8, rng()))) for alpha in (0.1, 1000.0))
    assert few > 10 * many


def test_a_balanced_split_has_equal_shares_and_uses_all_samples() -> None:
    data = part(np.repeat(np.arange(3), (700, 200, 103)))  # some labels are used up early
    for seed in range(20):
        shards = Dirichlet(alpha=0.05, balanced=True).assign(data, 10, rng(seed))
        assert sorted(sizes(shards)) == [100] * 7 + [101] * 3
        assert np.array_equal(np.sort(np.concatenate(shards)), np.arange(1003))


def test_devices_of_a_balanced_split_with_a_small_alpha_have_mainly_one_label() -> None:
    data, split = classes(10_000), Dirichlet(alpha=0.01, balanced=True)
    largest = np.concatenate([counts(split.assign(data, 50, rng(seed)), data).max(axis=1) for seed in range(5)])
    assert np.mean(largest >= 0.8 * 200) > 0.75  # each of the 50 has 200 samples


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_the_labels_of_a_device_vary_as_a_dirichlet_distribution_does(alpha: float) -> None:
    labels, data = 2, classes(4000, labels=2)
    # one of two devices, at random, draws first; it has 2000 samples, and there are as many of each label
    shares = []
    for seed in range(300):
        draws = rng(seed)
        for label in range(labels):
            draws.permutation(np.flatnonzero(data.labels == label))
        first = draws.permutation(2)[0]
        shards = Dirichlet(alpha=alpha, balanced=True).assign(data, 2, rng(seed))
        shares.append(counts(shards, data)[first] / 2000)
    variance = (1 / labels) * (1 - 1 / labels) / (labels * alpha + 1)
    assert np.mean(shares) == pytest.approx(1 / labels)
    assert np.var(shares) == pytest.approx(variance, rel=0.1)


def test_a_share_below_the_minimum_may_be_an_error() -> None:
    key, problem = refusal(Dirichlet(alpha=0.01, least=20, short="error"), classes(1000), 30)
    assert key == "least"
    assert problem.startswith("is 20; counted from 0, device ")
    assert "more have too few" in problem
    assert problem.endswith(": set it lower, or use short = 'fill', fewer devices, or a larger alpha")


def test_there_is_no_error_if_all_shares_are_large_enough() -> None:
    strict, filled = (Dirichlet(alpha=1000.0, least=20, short=short) for short in ("error", "fill"))
    shards = strict.assign(classes(1000), 30, rng())
    assert min(sizes(shards)) >= 20
    assert all(
        np.array_equal(one, two) for one, two in zip(shards, filled.assign(classes(1000), 30, rng()), strict=True)
    )


def test_a_minimum_that_is_impossible_is_refused() -> None:
    assert refusal(Dirichlet(least=11), classes(100), 10) == (
        "least",
        "is 11; 10 devices can have at most 10 each of 100 training samples: set it lower, or use fewer devices",
    )


# ---- sizes


@pytest.mark.parametrize("given", [(6250,) * 4, (10000, 5000, 5000, 5000), (17500, 2500, 2500, 2500)])
def test_devices_have_the_sizes_of_table_vi(given: tuple[int, ...]) -> None:
    assert tuple(sizes(Sizes(sizes=given).assign(classes(60_000), 4, rng()))) == given


def test_sizes_by_label_are_whole_digits_if_digits_are_equally_frequent() -> None:
    data = classes(1000)
    table = counts(Sizes(sizes=(350, 50, 50, 50), by_label=True).assign(data, 4, rng()), data)
    assert table.sum(axis=1).tolist() == [350, 50, 50, 50]
    order = [label for row in table for label in row.nonzero()[0]]
    assert order == sorted(order), "sorted, and cut"
    whole = counts(Sizes(sizes=(700, 100, 100, 100), by_label=True).assign(data, 4, rng()), data)
    assert (whole > 0).sum(axis=1).tolist() == [7, 1, 1, 1]


def test_there_must_be_one_size_for_each_device_and_enough_samples() -> None:
    assert refusal(Sizes(sizes=(1, 2)), classes(9), 3) == ("sizes", "has 2 numbers for 3 devices; give one for each")
    expected = "adds up to 10; there are 9 training samples: at most 9"
    assert refusal(Sizes(sizes=(4, 6)), classes(9), 2) == ("sizes", expected)


# ---- sorted (T1)


def test_sorted_shares_have_one_label_if_nothing_is_random() -> None:
    data = classes(1000)
    table = counts(SortAndPartition(epsilon=0).assign(data, 10, rng()), data)
    assert sorted(table.argmax(axis=1)) == list(range(10))
    assert (table.max(axis=1) == 100).all()


def test_the_labels_of_a_device_are_random() -> None:
    data = classes(1000)
    table = counts(SortAndPartition(epsilon=0).assign(data, 10, rng()), data)
    assert list(table.argmax(axis=1)) != list(range(10))


@pytest.mark.parametrize("epsilon", [0.04, 0.5])
def test_a_share_epsilon_is_spread_over_all_devices(epsilon: float) -> None:
    data = classes(60_000)
    table = counts(SortAndPartition(epsilon=epsilon).assign(data, 100, rng()), data)
    # 9 of 10 random samples do not have the label of the device; the median, because a few devices have two
    assert np.median(600 - table.max(axis=1)) == pytest.approx(0.9 * epsilon * 600, rel=0.1)
    assert set(table.sum(axis=1)) == {600}


def test_with_all_samples_random_the_split_is_iid() -> None:
    data = classes(60_000)
    table = counts(SortAndPartition(epsilon=1).assign(data, 10, rng()), data)
    assert abs(table - 600).max() < 5 * math.sqrt(600)


@pytest.mark.parametrize("epsilon", [0, 0.04, 0.37, 0.5, 0.93, 1])
@pytest.mark.parametrize("samples", [10, 13, 19, 101])
def test_sorted_shares_have_equal_size_for_every_epsilon(epsilon: float, samples: int) -> None:
    assert np.ptp(sizes(SortAndPartition(epsilon=epsilon).assign(classes(samples), 10, rng()))) <= 1


def test_values_are_also_sorted() -> None:
    data = values(100)
    shards = SortAndPartition(epsilon=0).assign(data, 4, rng())
    bounds = sorted((data.targets[shard].min(), data.targets[shard].max()) for shard in shards)
    assert all(below[1] <= above[0] for below, above in itertools.pairwise(bounds))
    several = part(np.stack([data.targets, -data.targets], axis=1))
    assert all(map(np.array_equal, SortAndPartition(epsilon=0).assign(several, 4, rng()), shards))


# ---- labels (T2)


@pytest.mark.parametrize("each", [1, 2, 5, 10])
def test_each_device_has_the_same_number_of_labels_and_each_label_of_devices(each: int) -> None:
    data = classes(6000)
    table = counts(Labels(per_device=each).assign(data, 30, rng()), data)
    assert set((table > 0).sum(axis=1)) == {each}
    assert set((table > 0).sum(axis=0)) == {3 * each}
    assert set(table[table > 0]) <= {600 // (3 * each), -(-600 // (3 * each))}
    assert table.sum() == 6000


@pytest.mark.parametrize(("devices", "labels", "each"), [(7, 10, 3), (100, 62, 5), (3, 10, 3), (1, 4, 4), (12, 7, 6)])
def test_labels_are_assigned_as_evenly_as_possible(devices: int, labels: int, each: int) -> None:
    has = assign(devices, labels, each, rng())
    assert (has.sum(axis=1) == each).all()
    assert np.ptp(has.sum(axis=0)) <= 1


def test_devices_have_many_different_sets_of_labels() -> None:
    # round-robin would give labels 0 … 4 to half of the devices and 5 … 9 to the other half
    assert len({tuple(row) for row in assign(40, 10, 5, rng())}) > 10


def test_each_device_has_each_label_with_the_same_probability() -> None:
    often = np.mean([assign(4, 10, 2, rng(seed)) for seed in range(2000)], axis=0)
    assert abs(often - 0.2).max() < 0.05


def test_samples_of_labels_without_devices_are_left_out() -> None:
    data = classes(1000)
    table = counts(Labels(per_device=2).assign(data, 3, rng()), data)
    assert sorted(table.sum(axis=0)) == [0] * 4 + [100] * 6


def test_labels_without_samples_do_not_count() -> None:
    data = part(np.array([2, 5] * 10))
    assert set((counts(Labels(per_device=2).assign(data, 3, rng()), data) > 0).sum(axis=1)) == {2}


def test_an_impossible_number_of_labels_is_refused() -> None:
    expected = "is 11; the data has 10 classes: at most 10"
    assert refusal(Labels(per_device=11), classes(100), 4) == ("per_device", expected)
    rare = part(np.array([0] * 50 + [1] * 3))
    assert refusal(Labels(per_device=2), rare, 4) == (
        "per_device",
        "is 2, so 4 devices share label 1, which has 3 samples: set it lower, or use fewer devices",
    )
    key, problem = refusal(Labels(), values(50), 4)
    assert key == "name"
    assert "values, which have no labels; use another split" in problem


# ---- power-law


def test_sizes_follow_the_power_law() -> None:
    given = sorted(sizes(PowerLaw(exponent=1.0).assign(classes(11_000), 4, rng())), reverse=True)
    assert given == [5280, 2640, 1760, 1320]  # 1 : 1/2 : 1/3 : 1/4, which is 12 : 6 : 4 : 3 of 25


def test_ranks_are_random() -> None:
    richest = {int(np.argmax(sizes(PowerLaw().assign(classes(500), 5, rng(seed))))) for seed in range(60)}
    assert richest == set(range(5))


def test_an_exponent_of_0_gives_equal_shares() -> None:
    assert np.ptp(sizes(PowerLaw(exponent=0).assign(classes(1003), 7, rng()))) <= 1


def test_labels_are_equally_distributed_under_a_power_law() -> None:
    data = classes(60_000)
    table = counts(PowerLaw().assign(data, 5, rng()), data)
    expected = table.sum(axis=1, keepdims=True) / 10
    assert (abs(table - expected) < 5 * np.sqrt(expected)).all()


def test_small_shares_of_a_power_law_are_filled_up_or_refused() -> None:
    assert min(sizes(PowerLaw(exponent=4, least=5).assign(classes(1000), 20, rng()))) == 5
    key, problem = refusal(PowerLaw(exponent=4, short="error"), classes(1000), 20)
    assert key == "least"
    assert problem.endswith("or a smaller exponent")


# ---- natural


OWNED = part(np.arange(12) % 3, owners=[4, 4, 4, 4, 4, 7, 7, 7, 9, 9, 2, 4])


def test_a_device_has_all_samples_of_one_owner() -> None:
    shards = {tuple(shard) for shard in Natural().assign(OWNED, 4, rng())}
    assert shards == {(0, 1, 2, 3, 4, 11), (5, 6, 7), (8, 9), (10,)}


def test_owners_are_drawn_among_those_with_enough_samples() -> None:
    drawn = {tuple(shard) for seed in range(30) for shard in Natural(least=2).assign(OWNED, 2, rng(seed))}
    assert drawn == {(0, 1, 2, 3, 4, 11), (5, 6, 7), (8, 9)}


def test_missing_owners_are_an_error() -> None:
    key, problem = refusal(Natural(), classes(50), 4)
    assert (key, problem) == (
        "name",
        "does not fit: this data set does not contain the owners of its samples; use another split",
    )
    key, problem = refusal(Natural(), replace(classes(50), owners_from="put a into b"), 4)
    assert problem == (
        "does not fit: this data set does not contain the owners of its samples; put a into b, or use another split"
    )
    key, problem = refusal(Natural(), OWNED, 5)
    assert (key, problem) == (
        "name",
        "does not fit: this data set has 4 owners for 5 devices; use fewer devices",
    )
    assert refusal(Natural(least=3), OWNED, 3) == (
        "least",
        "is 3; 2 of 4 owners have enough samples, for 3 devices: at most 2, or use fewer devices",
    )


# ---- groups of labels


def test_devices_of_a_group_share_its_labels_equally_and_have_no_others() -> None:
    data = classes(1000)
    partition = counts(LabelGroups(groups=4).assign(data, 20, rng()), data)
    labels = [tuple(np.flatnonzero(row)) for row in partition]
    groups = set(labels)
    assert sorted(label for group in groups for label in group) == list(range(10))
    assert {labels.count(group) for group in groups} == {5}
    assert {len(group) for group in groups} == {2, 3}
    assert partition.sum() == 1000
    for group in groups:
        shares = [row.sum() for row, own in zip(partition, labels, strict=True) if own == group]
        assert max(shares) - min(shares) <= 1


def test_more_groups_than_labels_or_devices_are_refused() -> None:
    problem = "the data has 10 classes, for 4 devices: at most 4"
    assert refusal(LabelGroups(groups=5), classes(1000), 4) == ("groups", f"is 5; {problem}")
    assert refusal(LabelGroups(groups=11), classes(1000), 20)[1].endswith("at most 10")
    assert refusal(LabelGroups(groups=2), values(50), 4)[0] == "name"
    few = part(np.array([0, 1, 1, 1, 1, 1], np.uint8))
    assert refusal(LabelGroups(groups=2), few, 4)[1].startswith("is 2; 2 devices of a group share 1 samples")
