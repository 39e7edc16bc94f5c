"""Values as texts of the command line, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.errors import UserError
from testbed.loading.overrides import parse, written
from testbed.sweeps.sweep_cells import _split

VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab \",'\\[]{}=.1é"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_a_written_value_is_read_back(value: Any) -> None:
    assert parse(written(value)) == value


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_written_values_with_commas_between_them_are_told_apart(values: list[Any]) -> None:
    assert [parse(text.strip()) for text in _split(",".join(map(written, values)))] == values


@pytest.mark.parametrize(
    ("value", "text"), [("fedbuff", "fedbuff"), ("1", '"1"'), ("true", '"true"'), ("a b", '"a b"'), (np.int64(3), "3")]
)
def test_only_texts_that_could_mean_something_else_have_quotes(value: object, text: str) -> None:
    assert written(value) == text


def test_what_no_profile_can_have_is_refused() -> None:
    with pytest.raises(UserError, match="is not a value of a profile"):
        written(object())
