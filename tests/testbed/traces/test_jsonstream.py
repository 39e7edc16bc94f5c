"""Large JSON objects are read entry by entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.errors import UserError
from testbed.traces.formats import json_stream
from tests.properties import examples
from tests.testbed.traces.files import write

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


@examples(50)
@given(
    table=st.dictionaries(st.text(max_size=8), VALUES, max_size=5),
    chunk=st.integers(1, 9),
    indent=st.sampled_from([None, 1]),
)
def test_the_result_equals_that_of_json_for_any_size_of_chunks(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, Any], chunk: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_text(json.dumps(table, indent=indent), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_CHUNK", chunk)
        assert dict(json_stream.entries(path)) == table


def test_the_first_entries_are_available_before_the_rest_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", '{"a": [1], "b": 2, "c": ' + " " * (2 << 20) + "nonsense")
    entries = json_stream.entries(path)
    assert [next(entries), next(entries)] == [("a", [1]), ("b", 2)]
    with pytest.raises(UserError):
        next(entries)


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "{", '{"a"', '{"a":}', '{"a": 1', '{"a": 1,}', '{"a": 1 "b": 2}', "{1: 2}", '{"a": 1}{"b": 2}', "{} x"],
)
def test_invalid_json_is_refused_with_file_and_line(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "x.json", f"\n\n{text}")
    with pytest.raises(UserError) as caught:
        list(json_stream.entries(path))
    assert str(caught.value).startswith(f"{path}, line 3: not valid JSON")


@pytest.mark.parametrize("value", ["[" * 200_000, "9" * 5000], ids=["deep", "long"])
def test_a_value_that_is_too_deep_or_too_long_is_refused(tmp_path: Path, value: str) -> None:
    path = write(tmp_path / "x.json", f'{{"a": {value}}}')
    with pytest.raises(UserError, match="not valid JSON"):
        list(json_stream.entries(path))
