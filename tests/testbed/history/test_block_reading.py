"""A trace is read in blocks: the events, errors and line numbers are those of reading it line by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from testbed.history import trace
from testbed.history.trace import Event, TraceError
from tests.testbed.examples import EVENTS
from tests.testbed.runs.folders import write_trace

OLD = Path(__file__).parents[2] / "fixtures" / "schema4"
SIZES = (1, 2, 7, 64, 300, 1000, 1 << 20)
"""Bytes of a block: smaller than a line, a few lines, and more than the whole trace."""
MANY = [*EVENTS, *EVENTS[1:], *EVENTS[1:]]


@pytest.fixture(params=SIZES)
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(trace, "_BLOCK", request.param)
    size: int = request.param
    return size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.jsonl", MANY)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def read(path: Path) -> tuple[list[Event], list[int]]:
    """The events, and the numbers of torn lines."""
    torn: list[int] = []
    return list(trace.read(path, torn.append)), torn


def failure(path: Path) -> tuple[int, str]:
    """How many events come before the error, and its text without the path."""
    count = 0
    with pytest.raises(TraceError) as caught:
        for count, _ in enumerate(trace.read(path), 1):  # noqa: B007  the count is used after the error
            pass
    return count, str(caught.value).removeprefix(str(path))


@pytest.mark.usefixtures("block")
def test_events_across_the_borders_of_blocks_are_read_whole(path: Path) -> None:
    assert read(path) == (MANY, [])


@pytest.mark.usefixtures("block")
def test_a_packed_trace_has_the_same_events(path: Path) -> None:
    packed = path.with_name("trace.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed) == (MANY, [])


@pytest.mark.usefixtures("block")
def test_lines_may_end_as_windows_ends_them(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read(path) == (MANY, [])


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_line_is_left_out_with_its_number(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:-cut])
    assert read(path) == (MANY[:-1], [len(MANY)])


@pytest.mark.usefixtures("block")
def test_a_trace_of_a_torn_line_only_has_no_events(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b'{"kind":"header","t"')
    assert read(path) == ([], [1])


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("number", [1, 2, 5, len(EVENTS), 2 * len(EVENTS), len(MANY)])
@pytest.mark.parametrize("garbage", [b"\n", b" \n", b"{}\n", b"{\n", b"[1]\n", b'{"kind":"nonsense","t":0.0}\n'])
def test_a_line_that_is_no_event_is_named_after_all_events_before_it(path: Path, number: int, garbage: bytes) -> None:
    lines = lines_of(path)
    lines[number - 1] = garbage
    path.write_bytes(b"".join(lines))
    count, text = failure(path)
    assert count == number - 1
    assert text.startswith(f", line {number}: ")


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("number", [2, len(EVENTS), len(MANY) - 1])
@pytest.mark.parametrize("after", [b"", b"\n"], ids=["", "and an empty line, so that the counts are equal"])
def test_two_events_on_one_line_are_no_event(path: Path, number: int, after: bytes) -> None:
    lines = lines_of(path)
    lines[number - 1 : number + 1] = [lines[number - 1].rstrip() + lines[number] + after]
    path.write_bytes(b"".join(lines))
    count, text = failure(path)
    assert (count, text.startswith(f", line {number}: ")) == (number - 1, True)


@pytest.mark.usefixtures("block")
def test_an_event_on_two_lines_is_no_event_although_the_next_line_has_two(path: Path) -> None:
    lines = lines_of(path)
    number = 2 * len(EVENTS)
    lines[number - 1] = lines[number - 1].replace(b",", b",\n", 1)
    lines[number : number + 2] = [lines[number].rstrip() + lines[number + 1]]
    path.write_bytes(b"".join(lines))
    count, text = failure(path)
    assert (count, text.startswith(f", line {number}: ")) == (number - 1, True)


@pytest.mark.usefixtures("block")
def test_the_schema_of_a_second_header_is_checked_too(path: Path) -> None:
    foreign = lines_of(path)[0].replace(f'"schema":{trace.SCHEMA}'.encode(), b'"schema":99')
    with path.open("ab") as file:
        file.write(foreign)
    count, text = failure(path)
    assert (count, text.startswith(f", line {len(MANY) + 1}: schema 99; ")) == (len(MANY), True)


@pytest.mark.parametrize("name", ["asafl", "clusters", "delays"])
def test_a_trace_of_an_older_schema_has_the_same_events_in_blocks_of_any_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = OLD / name / "trace.jsonl.gz"
    whole = read(packed)
    plain = tmp_path / "trace.jsonl"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    assert (len(whole[0]), whole[1]) == (len(lines_of(plain)), [])
    for size in (100, 5000, 1 << 14):
        monkeypatch.setattr(trace, "_BLOCK", size)
        assert read(packed) == read(plain) == whole


@pytest.mark.usefixtures("block")
def test_an_older_trace_with_a_wrong_line_names_it(tmp_path: Path) -> None:
    lines = gzip.decompress((OLD / "clusters" / "trace.jsonl.gz").read_bytes()).splitlines(keepends=True)[:40]
    lines[30] = b'{"kind":"nonsense","t":0.0}\n'
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"".join(lines))
    count, text = failure(path)
    assert (count, text.startswith(", line 31: ")) == (30, True)


@pytest.mark.usefixtures("block")
def test_a_packed_trace_that_was_cut_off_is_refused(path: Path) -> None:
    packed = path.with_name("trace.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes())[:-20])
    _, text = failure(packed)
    assert text.startswith(", after line ")
    assert "cannot be unpacked: " in text
