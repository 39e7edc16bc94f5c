"""Long columns and tables: exact, in any order of magnitude, in memory and in a file."""

from __future__ import annotations

import math
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.files import spool
from testbed.common.files.spool import RowSpool, Spool
from testbed.common.stats import quantile
from tests.properties import examples


@pytest.fixture(params=[4, 1 << 20], ids=["file", "memory"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but a few numbers and rows are in a file; or all are in memory."""
    monkeypatch.setattr(spool, "_NUMBERS_IN_MEMORY", request.param)
    monkeypatch.setattr(spool, "_ROWS_IN_MEMORY", request.param)


@pytest.mark.usefixtures("small")
def test_rows_come_back_in_their_order_any_number_of_times() -> None:
    rows = [(float(i), i / 3) for i in range(11)]
    found = Spool(2, rows)
    assert len(found) == 11
    assert list(found) == list(found) == rows
    assert sum(len(block) for block in found.blocks()) == 11
    assert not Spool(2)


@pytest.mark.usefixtures("small")
def test_several_rows_may_be_added_at_once() -> None:
    found = Spool(2)
    found.add(1.0, 2.0, 3.0, 4.0)
    found.add(5.0, 6.0)
    assert list(found) == [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@examples(100)
@given(st.lists(FLOATS, min_size=1, max_size=60), st.sampled_from([0.0, 0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_in_a_file_is_that_of_the_sorted_values(values: list[float], q: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_NUMBERS_IN_MEMORY", 8)
        found = Spool(1, [(value,) for value in values])
    assert found.quantiles(q) == [quantile(values, q)]
    assert math.copysign(1.0, found.quantiles(q)[0]) == 1.0 or quantile(values, q) < 0


@examples(100)
@given(st.lists(st.floats(0.01, 10.0), max_size=30), st.integers(0, 300), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_with_many_zeros_is_that_of_the_whole(values: list[float], zeros: int, q: float) -> None:
    found, whole = Spool(1, [(value,) for value in values]), [*values, *[0.0] * zeros]
    if whole:
        assert found.quantiles(q, zeros=zeros) == [quantile(whole, q)]
    else:
        with pytest.raises(ValueError, match="no values"):
            found.quantiles(q, zeros=zeros)


def test_a_quantile_with_zeros_is_exact_at_1400_values() -> None:
    values = [float(n) for n in range(1, 30)]
    found = Spool(1, [(value,) for value in values])
    assert found.quantiles(0.99, zeros=1371) == [quantile([*values, *[0.0] * 1371], 0.99)] == [15.0]


@pytest.mark.usefixtures("small")
def test_each_column_has_its_quantiles() -> None:
    found = Spool(2, [(float(i), -float(i)) for i in range(101)])
    assert found.quantiles(0.5, 1.0, column=0) == [50.0, 100.0]
    assert found.quantiles(0.5, 1.0, column=1) == [-50.0, 0.0]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    number: float | None = None


@pytest.mark.usefixtures("small")
def test_rows_of_a_table_come_back_as_they_were() -> None:
    rows = [Line(name=f"é{i}", number=None if i % 3 else i if i % 2 else i / 7) for i in range(11)]
    found = RowSpool(Line, rows)
    assert (len(found), found.last) == (11, rows[-1])
    again = list(found)
    assert again == list(found) == rows
    assert [type(row.number) for row in again] == [type(row.number) for row in rows]  # a CSV file shows the difference


def test_rows_stay_in_memory_where_no_file_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_NUMBERS_IN_MEMORY", 4)
    monkeypatch.setattr(spool, "_ROWS_IN_MEMORY", 4)
    full = iter([False, False, True, True])

    def write(file: int, piece: bytes, offset: int) -> int:
        if next(full, True):
            raise OSError(28, "No space left on device")
        return os.pwrite(file, piece, offset)

    monkeypatch.setattr(spool, "pwrite", write)
    numbers, rows = Spool(), RowSpool(Line)
    for i in range(50):
        numbers.add(i)
        rows.add(Line(name=str(i)))
    assert [number for (number,) in numbers] == list(range(50))
    assert [row.name for row in rows] == [str(i) for i in range(50)]
    assert numbers.quantiles(0.5) == [24.0]


def test_a_fork_may_read_while_its_parent_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report draws half of its figures in a fork, which shares the offset of an open file."""
    monkeypatch.setattr(spool, "_NUMBERS_IN_MEMORY", 4)
    found = Spool(1, [(float(i),) for i in range(100)])
    ours = iter(found)
    assert [next(ours) for _ in range(10)] == [(float(i),) for i in range(10)]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if len(list(found)) == 100 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [value for (value,) in ours] == [float(i) for i in range(10, 100)]
