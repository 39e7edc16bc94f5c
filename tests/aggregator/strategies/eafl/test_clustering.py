"""GDC finds planted groups of gradients."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies.eafl.clustering import cluster, heads, purity
from testbed.wire.messages import Vector
from tests.aggregator.strategies.by_hand import vector
from tests.properties import examples


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def planted(labels: int, each: int, size: int, noise: float, seed: int = 0) -> tuple[dict[str, Vector], dict[str, int]]:
    """Devices whose gradients are that of their label, of some length, and noise. Names do not reveal labels.

    In few dimensions, two directions that are drawn may be so near that noise mixes the groups.
    """
    draw = generator(seed)
    directions = draw.normal(size=(labels, size))
    order = draw.permutation(labels * each)
    truth = {f"device-{place}": int(number % labels) for place, number in enumerate(order)}
    gradients = {
        name: (draw.uniform(0.01, 100) * (directions[label] + noise * draw.normal(size=size))).astype(np.float32)
        for name, label in truth.items()
    }
    return gradients, truth


@pytest.mark.parametrize(("labels", "each", "size"), [(2, 3, 50), (5, 20, 1000), (10, 10, 21_840), (15, 4, 70_001)])
def test_groups_with_different_directions_are_found(labels: int, each: int, size: int) -> None:
    gradients, truth = planted(labels, each, size, noise=0.3)
    found = cluster(gradients, labels, generator())
    assert purity(found, truth) == 1.0
    assert [len(members) for members in found] == [each] * labels


def test_only_the_direction_counts_and_not_the_length() -> None:
    gradients = {"a": vector(1, 0), "b": vector(1e-6, 0), "c": vector(0, 1), "d": vector(0, 1e6), "e": vector(1e3, 1)}
    assert cluster(gradients, 2, generator()) == (("a", "b", "e"), ("c", "d"))


def test_opposite_directions_are_far_apart() -> None:
    assert cluster({"a": vector(1, 1), "b": vector(-1, -1), "c": vector(2, 2)}, 2, generator()) == (("a", "c"), ("b",))


def test_updates_and_gradients_give_the_same_clusters() -> None:
    gradients, _ = planted(4, 5, 50, noise=0.5)
    updates = {name: np.float32(-0.01) * gradient for name, gradient in gradients.items()}
    assert cluster(updates, 4, generator()) == cluster(gradients, 4, generator())


def test_the_points_have_the_same_distances_as_the_gradients() -> None:
    from sklearn.cluster import KMeans

    gradients, _ = planted(4, 6, 300, noise=0.8)
    names = sorted(gradients)
    whole = np.stack([gradients[name] / np.linalg.norm(gradients[name]) for name in names])
    labels = KMeans(4, n_init=10, random_state=0).fit(whole).labels_
    direct = {frozenset(names[i] for i in np.flatnonzero(labels == label)) for label in set(labels)}
    assert {frozenset(members) for members in cluster(gradients, 4, generator())} == direct


# ---- order


def test_clusters_are_in_the_order_of_their_first_device() -> None:
    gradients, _ = planted(5, 4, 30, noise=0.4)
    found = cluster(gradients, 5, generator(3))
    assert [members[0] for members in found] == sorted(members[0] for members in found)
    assert all(list(members) == sorted(members) for members in found)
    backwards = dict(reversed(gradients.items()))
    assert cluster(backwards, 5, generator(3)) == found


def test_the_same_generator_gives_the_same_clusters_and_heads() -> None:
    gradients, _ = planted(5, 10, 20, noise=3.0)  # so much noise that the groups overlap

    def drawn(seed: int) -> object:
        random = generator(seed)
        found = cluster(gradients, 5, random)
        return found, heads(found, random)

    assert drawn(1) == drawn(1)
    assert len({str(drawn(seed)) for seed in range(5)}) > 1


# ---- heads


def test_heads_are_members_and_every_member_may_be_head() -> None:
    clusters = (("a", "b", "c"), ("d",), ("e", "f"))
    seen = [heads(clusters, generator(seed)) for seed in range(100)]
    assert {head for head, _, _ in seen} == {"a", "b", "c"}
    assert {head for _, head, _ in seen} == {"d"}
    assert {head for _, _, head in seen} == {"e", "f"}


# ---- special cases


def test_without_devices_there_are_no_clusters() -> None:
    assert cluster({}, 3, generator()) == ()
    assert heads((), generator()) == ()


def test_there_are_no_more_clusters_than_devices_and_none_is_empty() -> None:
    assert cluster({"a": vector(1, 0), "b": vector(0, 1)}, 5, generator()) == (("a",), ("b",))


def test_there_are_no_more_clusters_than_directions() -> None:
    same = {name: vector(3, 4) for name in "abc"} | {name: vector(-1, 2) for name in "de"}
    assert cluster(same, 4, generator()) == (("a", "b", "c"), ("d", "e"))
    assert cluster({name: vector(3, 4) for name in "abc"}, 2, generator()) == (("a", "b", "c"),)


def test_devices_without_a_direction_are_in_some_cluster() -> None:
    gradients = {"a": vector(1, 0), "b": vector(0, 0), "c": vector(0, 1), "d": vector(0, 0)}
    found = cluster(gradients, 3, generator())
    assert found == (("a",), ("b", "d"), ("c",))
    assert sorted(chain(*cluster(gradients, 2, generator()))) == ["a", "b", "c", "d"]
    assert cluster({"a": vector(0, 0), "b": vector(0, 0)}, 2, generator()) == (("a", "b"),)


def test_very_small_and_very_large_gradients_have_directions() -> None:
    gradients = {"a": vector(1e-38, 0), "b": vector(1e18, 0), "c": vector(0, 1e-40), "d": vector(0, 1e15)}
    assert cluster(gradients, 2, generator()) == (("a", "b"), ("c", "d"))


def test_scikit_learn_is_imported_only_for_clustering() -> None:
    code = "import sys, aggregator.strategies.eafl.clustering; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@examples(50)
@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.lists(st.integers(-2, 2), min_size=3, max_size=3)),
    st.integers(1, 6),
)
def test_every_device_is_in_exactly_one_cluster_and_none_is_empty(given_: dict[str, list[int]], count: int) -> None:
    gradients = {name: vector(*numbers) for name, numbers in given_.items()}
    found = cluster(gradients, count, generator())
    assert sorted(chain(*found)) == sorted(gradients)
    assert all(found)
    assert len(found) <= count
    assert all(head in members for head, members in zip(heads(found, generator()), found, strict=True))


# ---- purity


def test_purity_by_hand() -> None:
    truth = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3}
    assert purity((("a", "b"), ("c", "d"), ("e",)), truth) == 1.0
    assert purity((("a", "b", "c", "d", "e"),), truth) == 2 / 5
    assert purity((("a", "c"), ("b", "d", "e")), truth) == 2 / 5  # one of two, one of three
    assert purity((("a", "b", "c"), ("d", "e")), truth) == 3 / 5
