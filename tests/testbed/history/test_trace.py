"""The trace: events are written and read back, torn lines are skipped, wrong lines are named."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from testbed.history import trace
from testbed.history.trace import TraceError, TraceWriter, read
from tests.testbed.examples import EVENTS


def written(folder: Path, events: Iterable[trace.Event] = EVENTS) -> Path:
    path = folder / "trace.jsonl"
    writer = TraceWriter(path)
    for event in events:
        writer.write(event)
    writer.close()
    return path


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EVENTS} == set(trace.KINDS.values())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert list(read(written(tmp_path))) == list(EVENTS)


def test_an_event_is_one_line_of_json_with_kind_and_time_first(tmp_path: Path) -> None:
    line = written(tmp_path, [trace.Resent(t=1.5, device="a", ticket=2)]).read_text(encoding="utf-8")
    assert line == '{"kind":"resent","t":1.5,"device":"a","ticket":2}\n'


def test_a_writer_appends(tmp_path: Path) -> None:
    written(tmp_path, EVENTS[:2])
    assert list(read(written(tmp_path, EVENTS[2:]))) == list(EVENTS)


def test_events_are_readable_after_a_flush_and_after_a_full_buffer(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    writer = TraceWriter(path)
    writer.write(EVENTS[0])
    writer.flush()
    assert list(read(path)) == [EVENTS[0]]
    for _ in range(4096):
        writer.write(EVENTS[1])
    assert len(list(read(path))) == 4097
    writer.close()


@pytest.mark.parametrize("kept", [1, 10, -2])
def test_a_torn_last_line_is_skipped(tmp_path: Path, kept: int) -> None:
    path = written(tmp_path, EVENTS[:3])
    whole, last = path.read_bytes().rstrip().rsplit(b"\n", 1)
    path.write_bytes(whole + b"\n" + last[:kept])
    assert list(read(path)) == list(EVENTS[:2])


def test_a_torn_last_line_is_reported_by_its_number(tmp_path: Path) -> None:
    path = written(tmp_path, EVENTS[:3])
    torn: list[int] = []
    assert len(list(read(path, torn.append))) == 3
    assert torn == []
    path.write_bytes(path.read_bytes()[:-1])
    assert len(list(read(path, torn.append))) == 2
    assert torn == [3]


def test_a_packed_trace_is_read_like_any_other(tmp_path: Path) -> None:
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(written(tmp_path).read_bytes()))
    assert list(read(packed)) == list(EVENTS)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(TraceError, match="cannot be unpacked"):
        list(read(packed))


def test_an_empty_trace_has_no_events(tmp_path: Path) -> None:
    assert list(read(written(tmp_path, []))) == []


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "{",
        "5",
        "[]",
        "null",
        '"resent"',
        '{"kind": "resent"}',
        '{"kind": "nonsense", "t": 0.0}',
        "[" * 100_000,
        '{"kind":"resent","t":1' + "0" * 400 + ',"device":"a","ticket":2}',
    ],
    ids=lambda text: text[:30],
)
def test_a_line_that_is_no_event_is_named_with_file_and_number(tmp_path: Path, garbage: str) -> None:
    path = written(tmp_path, EVENTS[:2])
    with path.open("a", encoding="utf-8") as file:
        file.write(garbage + "\n")
    with pytest.raises(TraceError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}, line 3: ")


def test_a_trace_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(
        path.read_text(encoding="utf-8").replace(f'"schema":{trace.SCHEMA}', '"schema":1'), encoding="utf-8"
    )
    with pytest.raises(TraceError, match="line 1: schema 1; this version reads 4"):
        next(read(path))


def test_a_header_with_fields_of_another_schema_is_refused_for_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"kind":"header","t":0.0,"schema":99,"unheard":1}\n', encoding="utf-8")
    with pytest.raises(TraceError, match="line 1: schema 99; this version reads 4"):
        next(read(path))


def test_a_trace_in_other_units_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace(trace.UNITS, "hours"), encoding="utf-8")
    with pytest.raises(TraceError, match="line 1: units 'hours'; this version reads 'seconds, bytes, versions'"):
        next(read(path))
