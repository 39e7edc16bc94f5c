"""SAA and DSA, eqs. (3) to (5) of Zhou et al. 2024, recomputed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies.eafl.two_stage import dsa, dsa_weights, quorum, saa, saa_weights
from tests.aggregator.strategies.by_hand import vector


def test_a_cluster_by_hand() -> None:
    # |D| = 1, 3; staleness 0 and 1, that is τ = 1 and 2:  ¼·1·(8, 0) + ¾·½·(0, 16) = (2, 6)
    assert saa([vector(8, 0), vector(0, 16)], [1, 3], [0, 1]).tolist() == [2.0, 6.0]
    assert saa_weights([1, 3], [0, 1]) == [0.25, 0.375]
    assert saa([vector(8, 0), vector(0, 16)], [1, 3], [0, 1], damped=False).tolist() == [4.0, 8.0]  # the plain mean


def test_the_weights_of_stale_updates_do_not_add_up_to_one() -> None:
    assert saa_weights([5], [3]) == [0.25]
    assert sum(saa_weights([2, 2], [1, 1])) == 0.5
    assert sum(saa_weights([1, 2, 3], [0, 0, 0])) == pytest.approx(1.0)


def test_a_model_by_hand() -> None:
    # |D_n| = 10 and 30 of the whole clusters:  (1, 1) + ¼·(4, 0) + ¾·(0, −8) = (2, −5)
    assert dsa(vector(1, 1), [vector(4, 0), vector(0, -8)], [10, 30]).tolist() == [2.0, -5.0]


def test_two_iterations_of_two_clusters_by_hand() -> None:
    """Cluster one: a (1 sample), b (3); cluster two: c (4). φ = ½: one of two, one of one."""
    assert (quorum(0.5, 2), quorum(0.5, 1)) == (1, 1)
    first, second = saa([vector(8)], [1], [0]), saa([vector(-4)], [4], [0])  # a and c are the fastest
    model = dsa(vector(0), [first, second], [4, 4])  # ½·8 − ½·4; the weight of cluster one includes b
    assert model.tolist() == [2.0]
    first, second = saa([vector(8)], [3], [1]), saa([vector(2)], [4], [0])  # b trained on version 0: τ = 2
    model = dsa(model, [first, second], [4, 4])  # 2 + ½·½·8 + ½·2
    assert model.tolist() == [5.0]


def test_the_result_of_one_head_is_weighted_by_its_share_of_all_samples() -> None:
    assert dsa_weights([10], total=40) == [0.25]
    assert dsa(vector(1), [vector(8)], [10], total=40).tolist() == [3.0]


def test_neither_stage_changes_its_arguments() -> None:
    model, delta = vector(1, 2), vector(3, 4)
    model.flags.writeable = delta.flags.writeable = False
    assert saa([delta], [1], [0]) is not delta
    assert dsa(model, [delta], [1]).tolist() == [4.0, 6.0]


@pytest.mark.parametrize(
    ("phi", "members", "expected"),
    [(0.1, 20, 2), (0.1, 30, 3), (0.1, 1, 1), (0.1, 11, 2), (0.2, 7, 2), (1.0, 7, 7), (0.01, 5, 1), (0.14, 50, 7)],
)
def test_a_head_waits_for_its_share_rounded_up(phi: float, members: int, expected: int) -> None:
    assert quorum(phi, members) == expected


@given(st.floats(0.001, 1), st.integers(1, 1000))
def test_a_quorum_is_at_least_one_and_at_most_all_members(phi: float, members: int) -> None:
    assert 1 <= quorum(phi, members) <= members


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 50), st.integers(-100, 100)), min_size=1, max_size=20))
def test_both_stages_together_are_one_weighted_sum(updates: list[tuple[int, int, int]]) -> None:
    samples, staleness, numbers = zip(*updates, strict=True)
    whole = [own + 7 for own in samples]  # each is the fastest device of another cluster, which has more samples
    model = dsa(vector(5), [saa([vector(x)], [n], [t]) for n, t, x in updates], whole)
    expected = 5 + sum(w * x / (t + 1) for w, t, x in zip(whole, staleness, numbers, strict=True)) / sum(whole)
    assert float(model[0]) == pytest.approx(expected, rel=1e-4, abs=1e-4)
    cluster = saa([vector(x) for x in numbers], samples, staleness)
    exact = np.dot([n / (t + 1) for n, t in zip(samples, staleness, strict=True)], numbers) / sum(samples)
    assert float(cluster[0]) == pytest.approx(float(exact), rel=1e-4, abs=1e-4)
