"""Events of an earlier schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.history import trace
from testbed.history.upgrade import upgraded

HEADER = (
    b'{"kind":"header","t":0,"schema":4,"name":"n","strategy":"s","seed":1,"dilation":1,"demand":0.1,"pressure":null,'
    b'"started":"","host":""}\n'
)


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("dispatched", "lead", "for_cluster"),
        ("downloaded", "held", "absent"),
        ("uploaded", "held", "absent"),
        ("arrived", "taken", "handled"),
        ("asked", "taken", "handled"),
        ("grouped", "book", "ticket_range"),
    ],
)
def test_a_renamed_field_gets_its_new_name(kind: str, old: str, new: str) -> None:
    assert upgraded({"kind": kind, old: 1, "t": 2.0}) == {"kind": kind, new: 1, "t": 2.0}


def test_other_events_stay_as_they_are() -> None:
    assert upgraded({"kind": "left", "held": 1}) == {"kind": "left", "held": 1}


def test_the_header_of_an_earlier_trace_is_of_the_present_schema(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(
        HEADER + b'{"kind":"dispatched","t":1,"device":"a","ticket":1,"version":0,"steps":2,"lead":true}\n'
    )
    header, dispatched = trace.read(path)
    assert isinstance(header, trace.Header)
    assert header.schema == trace.SCHEMA
    assert isinstance(dispatched, trace.Dispatched)
    assert dispatched.for_cluster


@pytest.mark.parametrize("line", [b'{"kind":[]}', b"[]", b"5", b'{"kind":"dispatched","t":"x"}', b"{"])
def test_a_bad_line_of_an_earlier_trace_is_an_error_with_its_number(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(HEADER + line + b"\n")
    with pytest.raises(trace.TraceError, match="line 2"):
        list(trace.read(path))
