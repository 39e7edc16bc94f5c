"""Properties of every split with any data, and their parameters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common import parameters
from testbed.common.errors import ProfileError
from testbed.common.parameters import ParameterError
from testbed.learning.data.dataset import Indices, Subset
from testbed.learning.splits import SPLITS as CATALOGUE
from testbed.learning.splits import checked
from testbed.learning.splits.dirichlet import Dirichlet
from testbed.learning.splits.growing_sizes import GrowingSizes
from testbed.learning.splits.iid import IID
from testbed.learning.splits.inner_dirichlet import InnerDirichlet
from testbed.learning.splits.label_groups import LabelGroups
from testbed.learning.splits.labels import Labels
from testbed.learning.splits.minimum import AtLeast
from testbed.learning.splits.natural import Natural
from testbed.learning.splits.pathological import Pathological
from testbed.learning.splits.power_law import PowerLaw
from testbed.learning.splits.shards import Shards
from testbed.learning.splits.sizes import Sizes
from testbed.learning.splits.sort_and_partition import SortAndPartition
from testbed.learning.splits.split import Split
from tests.properties import examples
from tests.testbed.learning.splits.parts import classes, part, rng, values

DATA = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(
    lambda labels: part(np.array(labels, np.uint8), owners=np.array(labels) // 2)
)
VALUES = st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=60).map(lambda v: part(np.array(v, np.float32)))
ASSIGNMENTS = st.sampled_from(["random", "first-deterministic", "deterministic"])
LEAST, SHORT = st.integers(1, 5), st.sampled_from(["fill", "error"])
SPLITS: st.SearchStrategy[Split] = st.one_of(
    st.builds(IID, samples=st.none() | st.integers(1, 20)),
    st.builds(Dirichlet, alpha=st.floats(0.001, 100), balanced=st.booleans(), least=LEAST, short=SHORT),
    st.builds(PowerLaw, exponent=st.floats(0, 5), least=LEAST, short=SHORT),
    st.builds(SortAndPartition, epsilon=st.floats(0, 1)),
    st.builds(Labels, per_device=st.integers(1, 7)),
    st.builds(LabelGroups, groups=st.integers(1, 7)),
    st.builds(Sizes, sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6).map(tuple), by_label=st.booleans()),
    st.builds(Natural, least=LEAST),
    st.builds(Dirichlet, alpha=st.floats(0.001, 100), capped=st.booleans(), quantity=st.booleans(), least=LEAST),
    st.builds(GrowingSizes, growth=st.sampled_from(["linear", "square", "exponential"])),
    st.builds(InnerDirichlet, alpha=st.floats(0.001, 100)),
    st.builds(InnerDirichlet, sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6).map(tuple)),
    st.builds(Pathological, per_device=st.integers(1, 7), assignment=ASSIGNMENTS),
    st.builds(Shards, per_device=st.integers(1, 5), size=st.none() | st.integers(1, 20)),
)
COMPLETE = (
    IID(),
    Dirichlet(),
    Dirichlet(balanced=True),
    Dirichlet(capped=True),
    Dirichlet(quantity=True),
    PowerLaw(),
    SortAndPartition(),
    GrowingSizes(),
    GrowingSizes(growth="square"),
    GrowingSizes(growth="exponential"),
    InnerDirichlet(),
)
"""Splits that use all samples."""


def assigned_or_refused(split: Split, data: Subset, devices: int, seed: int) -> list[Indices] | ParameterError:
    try:
        return checked.assign_checked(split, data, devices, rng(seed))
    except ParameterError as error:
        return error


@examples(400)
@given(split=SPLITS, data=DATA | VALUES, devices=st.integers(1, 12), seed=st.integers(0, 99))
def test_shares_are_disjoint_and_large_enough_or_an_error_gives_the_reason(
    split: Split, data: Subset, devices: int, seed: int
) -> None:
    shards = assigned_or_refused(split, data, devices, seed)
    if isinstance(shards, ParameterError):
        assert shards.key == "name" or hasattr(split, shards.key)
        assert shards.problem.startswith(("is ", "has ", "adds up to ", "does not fit: "))
        return
    assigned = np.concatenate(shards)
    assert len(np.unique(assigned)) == len(assigned)
    assert min(map(len, shards)) >= getattr(split, "least", 1)
    assert all(np.array_equal(shard, np.sort(shard)) and shard.dtype == np.int64 for shard in shards)
    again = split.assign(data, devices, rng(seed))
    assert all(np.array_equal(one, other) for one, other in zip(shards, again, strict=True))


@examples(150)
@given(split=st.sampled_from(COMPLETE), data=DATA | VALUES, devices=st.integers(1, 12))
def test_all_samples_are_assigned(split: Split, data: Subset, devices: int) -> None:
    if len(data) >= devices:
        assert np.array_equal(np.sort(np.concatenate(split.assign(data, devices, rng()))), np.arange(len(data)))


@examples(150)
@given(data=DATA, devices=st.integers(1, 12), least=LEAST, alpha=st.floats(0.001, 1))
def test_filling_fails_only_if_there_are_too_few_samples(data: Subset, devices: int, least: int, alpha: float) -> None:
    split = Dirichlet(alpha=alpha, least=least)
    if len(data) >= least * devices:
        assert min(map(len, split.assign(data, devices, rng()))) >= least
    else:
        with pytest.raises(ParameterError, match="fewer devices"):
            split.assign(data, devices, rng())


@pytest.mark.parametrize(
    "split", [*COMPLETE, Labels(per_device=2), Pathological(), Shards(), IID(identical=True, samples=30)]
)
def test_another_seed_gives_another_split(split: Split) -> None:
    one, other = (split.assign(classes(200), 8, rng(seed)) for seed in (1, 2))
    assert any(not np.array_equal(mine, yours) for mine, yours in zip(one, other, strict=True))


@pytest.mark.parametrize("split", [*COMPLETE, Labels(), Pathological(), Shards()])
def test_more_devices_than_samples_are_refused(split: Split) -> None:
    with pytest.raises(ParameterError) as caught:
        split.assign(classes(9), 10, rng())
    assert caught.value.key == "name"
    assert "9 training samples cannot be split over 10 devices; use fewer devices" in caught.value.problem


@pytest.mark.parametrize("split", COMPLETE)
def test_values_can_be_assigned(split: Split) -> None:
    assert len(split.assign(values(50), 5, rng())) == 5


def test_every_split_of_the_catalogue_is_a_documented_dataclass() -> None:
    assert list(CATALOGUE) == sorted(CATALOGUE)
    for name, cls in CATALOGUE.items():
        assert issubclass(cls, CATALOGUE.base)
        assert cls.__doc__
        assert "\n" not in cls.__doc__
        assert dataclasses.is_dataclass(cls)
        assert CATALOGUE.find(name, "x.toml", "task.split.name") is cls
        assert all(meaning for *_, meaning in parameters.describe(cls))


@pytest.mark.parametrize(
    ("name", "table", "problem"),
    [
        ("dirichlet", {"alpha": 0}, "alpha is 0.0; it must be above 0"),
        ("dirichlet", {"short": "ignore"}, "short is 'ignore'; known: error, fill"),
        ("dirichlet", {"alhpa": 1}, "did you mean 'alpha'?"),
        ("sizes", {}, "sizes is missing: samples of each device"),
        ("sizes", {"sizes": [3, 0]}, "sizes[1] is 0; it must be at least 1"),
        ("sorted", {"epsilon": 1.5}, "epsilon is 1.5; it must be at least 0 and at most 1"),
        ("natural", {"least": 0}, "least is 0; it must be at least 1"),
        ("iid", {"samples": 0}, "samples is 0; it must be at least 1"),
    ],
)
def test_a_wrong_parameter_is_refused(name: str, table: dict[str, object], problem: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parameters.build(CATALOGUE[name], table, "x.toml", "task.split")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "split", [*COMPLETE, Sizes(sizes=(3, 4)), Labels(per_device=3), IID(samples=5), Shards(), Pathological()]
)
def test_a_split_is_restored_from_its_table(split: Split) -> None:
    assert parameters.build(type(split), parameters.as_table(split), "x.toml") == split


def test_splits_with_random_sizes_have_a_minimum() -> None:
    assert {name for name, cls in CATALOGUE.items() if issubclass(cls, AtLeast)} == {"dirichlet", "power-law"}
