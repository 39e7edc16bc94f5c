"""The arrays of a Flower model become one vector of float32 and come back with their own types."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.learning.flower.array_layout import ArrayLayout
from testbed.learning.training.own_training import OwnTrainingError

MODEL = {
    "weight": np.arange(6, dtype=np.float64).reshape(2, 3),
    "count": np.array(3),
    "half": np.ones(2, np.float16),
    "mask": np.array([True, False]),
    "bias": np.array(0.5, np.float32),
}


def test_floats_are_the_vector_in_their_order() -> None:
    layout = ArrayLayout(MODEL)
    assert layout.initial().tolist() == [0, 1, 2, 3, 4, 5, 1, 1, 0.5]
    assert layout.initial().dtype == np.float32
    assert set(layout.local) == {"count", "mask"}
    assert layout.wide == ["weight"]


def test_a_model_comes_back_with_its_types_and_shapes() -> None:
    layout = ArrayLayout(MODEL)
    back = layout.arrays(layout.initial(), layout.local)
    assert list(back) == list(MODEL)
    for name, array in MODEL.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(back[name], array)


def test_arrays_that_are_not_shared_are_those_of_the_device() -> None:
    layout = ArrayLayout(MODEL)
    back = layout.arrays(layout.initial(), layout.local | {"count": np.array(9)})
    assert back["count"] == 9


def test_another_float_type_in_a_reply_is_converted() -> None:
    layout = ArrayLayout(MODEL)
    reply = MODEL | {"half": np.full(2, 0.25, np.float64)}
    assert layout.vector(reply, "it")[6:8].tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ({"weight": MODEL["weight"]}, "it returned 1 arrays .* the initial model has 5"),
        (MODEL | {"bias": np.ones(1)}, r"array bias as float64 of shape \(1,\); the initial model has float32"),
        (MODEL | {"half": np.ones(2, int)}, r"array half as int64"),
        (MODEL | {"count": np.array(0.5)}, r"array count as float64"),
    ],
)
def test_a_reply_with_other_arrays_is_told(reply: dict[str, np.ndarray], told: str) -> None:
    with pytest.raises(OwnTrainingError, match=told):
        ArrayLayout(MODEL).vector(reply, "it")


def test_a_number_that_float32_cannot_have_becomes_infinite_and_is_refused_later() -> None:
    reply = MODEL | {"weight": np.full((2, 3), 1e300)}
    assert np.isinf(ArrayLayout(MODEL).vector(reply, "it")[:6]).all()


def test_models_without_floats_and_other_types_are_refused_by_name() -> None:
    with pytest.raises(OwnTrainingError, match=r"no array .* \(trees: uint8\[4\]\)"):
        ArrayLayout({"trees": np.zeros(4, np.uint8)})
    with pytest.raises(OwnTrainingError, match="array text of the initial model has type <U1"):
        ArrayLayout({"text": np.array("x"), "weight": np.zeros(1)})
