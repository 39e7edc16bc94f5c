"""Error feedback: three updates worked out by hand for each method, what does not arrive, and what is conserved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.wire.error_feedback import ErrorFeedback, outgoing
from testbed.wire.ticket_ranges import first_ticket
from tests.properties import examples
from tests.testbed.examples import vector


def three(method: str, *deltas: tuple[float, ...]) -> list[list[float]]:
    """What a device sends for three updates of which all arrive."""
    feedback, sent = ErrorFeedback(method), []
    for ticket, delta in enumerate(deltas, start=1):
        feedback.begin(ticket, ticket - 1)
        sent.append(feedback.compress(ticket, vector(*delta))[0].tolist())
    return sent


# ---- worked out by hand


def test_three_updates_with_topk_by_hand() -> None:
    # k = ⌈0.25 · 4⌉ = 1
    # 1: p = (1, 4, −2, 0)             sends 4 at index 1     e = (1, 0, −2, 0)
    # 2: p = (1, 1, −2, 0) + e = (2, 1, −4, 0)    sends −4 at 2    e = (2, 1, 0, 0)
    # 3: p = (1, 1, 1, 1) + e = (3, 2, 1, 1)      sends 3 at 0     e = (0, 2, 1, 1)
    sent = three("topk:0.25", (1, 4, -2, 0), (1, 1, -2, 0), (1, 1, 1, 1))
    assert sent == [[0, 4, 0, 0], [0, 0, -4, 0], [3, 0, 0, 0]]


def test_three_updates_with_int8_by_hand() -> None:
    # 1: p = (254, 3)       s = 2   3/2 = 1.5 → 2 → 4        e = (0, −1)
    # 2: p = (127, 1.25) + e = (127, 0.25)     s = 1   0.25 → 0      e = (0, 0.25)
    # 3: p = (127, 0.5) + e = (127, 0.75)      s = 1   0.75 → 1      e = (0, −0.25)
    assert three("int8", (254, 3), (127, 1.25), (127, 0.5)) == [[254, 4], [127, 0], [127, 1]]


def test_three_updates_with_float16_by_hand() -> None:
    # u = 2⁻¹⁰ is the distance of numbers between 1 and 2
    # 1: p = 1 + u/4                       → 1        e = u/4
    # 2: p = 1 + u/4 + u/4 = 1 + u/2       → 1 (even)     e = u/2
    # 3: p = 1 + u/4 + u/2 = 1 + 3u/4      → 1 + u    e = −u/4
    u = 2.0**-10
    assert three("float16", (1 + u / 4,), (1 + u / 4,), (1 + u / 4,)) == [[1], [1], [1 + u]]


# ---- what arrives and what does not


def sent_after(first_arrives: bool) -> list[float]:
    feedback = ErrorFeedback("topk:0.5")
    feedback.begin(1, 0)
    feedback.compress(1, vector(5.0, 1.0))  # sends 5; e = (0, 1) if it arrives
    feedback.begin(2, 1 if first_arrives else 0)
    return feedback.compress(2, vector(3.0, 2.5))[0].tolist()


def test_an_update_that_does_not_arrive_leaves_the_residual_as_it_was() -> None:
    assert sent_after(first_arrives=True) == [0.0, 3.5]  # p = (3, 3.5)
    assert sent_after(first_arrives=False) == [3.0, 0.0]  # p = (3, 2.5)


def test_a_job_that_is_abandoned_changes_nothing() -> None:
    feedback = ErrorFeedback("topk:0.5")
    feedback.begin(1, 0)
    feedback.compress(1, vector(5.0, 1.0))
    feedback.begin(2, 1)
    feedback.begin(3, 1)  # no update of ticket 2 was made
    assert feedback.compress(3, vector(3.0, 2.5))[0].tolist() == [0.0, 3.5]


def test_an_update_that_is_not_finite_does_not_spoil_the_next_ones() -> None:
    feedback = ErrorFeedback("int8")
    feedback.begin(1, 0)
    assert np.isnan(feedback.compress(1, vector(np.nan, 1.0))[0]).all()
    feedback.begin(2, 0)  # the engine has rejected ticket 1
    assert feedback.compress(2, vector(127.0, 2.0))[0].tolist() == [127.0, 2.0]


def test_the_residual_belongs_to_one_giver_of_tickets() -> None:
    feedback = ErrorFeedback("topk:0.5")
    feedback.begin(1, 0)
    feedback.compress(1, vector(5.0, 1.0))
    own = first_ticket(3) + 1
    feedback.begin(own, 0)
    assert feedback.compress(own, vector(3.0, 2.5))[0].tolist() == [3.0, 0.0]


def test_without_compression_an_update_is_sent_as_it_is() -> None:
    feedback, delta = ErrorFeedback("none"), vector(1.0, 2.0)
    feedback.begin(1, 0)
    sent, payload = feedback.compress(1, delta)
    assert sent is delta
    assert payload is None


# ---- what is conserved

deltas = st.lists(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=6, max_size=6).map(lambda numbers: vector(*numbers)), max_size=12
)


@examples(300)
@given(st.sampled_from(["float16", "int8", "topk:0.3"]), deltas)
def test_what_was_sent_and_the_residual_are_the_sum_of_the_deltas(method: str, deltas: list[np.ndarray]) -> None:
    residual, sent = None, np.zeros(6)
    for delta in deltas:
        delta_sent, _, residual = outgoing(method, delta, residual)
        sent += delta_sent
    total = np.sum(deltas, axis=0, dtype=np.float64) if deltas else np.zeros(6)
    left = np.zeros(6) if residual is None else residual
    # each addition in single precision rounds by at most 2⁻²⁴ of its result
    np.testing.assert_allclose(sent + left, total, rtol=0, atol=len(deltas) * 2.0**-22 * 1e4)


@examples(200)
@given(st.sampled_from(["float16", "int8", "topk:0.3"]), deltas, st.data())
def test_the_device_sends_what_follows_from_its_arrived_updates(
    method: str, deltas: list[np.ndarray], data: st.DataObject
) -> None:
    feedback, arrived, residual = ErrorFeedback(method), 0, None
    for ticket, delta in enumerate(deltas, start=1):
        feedback.begin(ticket, arrived)
        sent, payload = feedback.compress(ticket, delta)
        expected = outgoing(method, delta, residual)
        np.testing.assert_array_equal(sent, expected.delta)
        assert payload is not None
        assert payload.data == expected.payload.data
        if data.draw(st.booleans(), "arrives"):
            arrived, residual = ticket, expected.residual


@pytest.mark.parametrize("method", ["float16", "int8", "topk:0.3"])
def test_the_delta_that_was_trained_is_not_changed(method: str) -> None:
    delta, residual = vector(1.0, 2.0, 1e-3), vector(0.25, 0.5, 0.75)
    outgoing(method, delta, residual)
    assert delta.tolist() == vector(1.0, 2.0, 1e-3).tolist()
    assert residual.tolist() == [0.25, 0.5, 0.75]
