"""Files of rates and availability: reading, writing and errors."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.errors import UserError
from testbed.traces import availability, rate
from testbed.traces.availability import AvailabilityTrace
from testbed.traces.rate import RateTrace
from tests.properties import examples

RATES = "t_s,mbps\n0,8\n10,0\n15,4.5\n20,\n"
AVAILABLE = "t_s,available\n0,1\n10,0\n15,1\n20,\n"


def put(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_a_rate_file_contains_the_rate_from_each_time_on(tmp_path: Path, name: str) -> None:
    trace = rate.read(put(tmp_path, RATES, name))
    assert (list(trace.pieces), trace.period) == ([(0, 8), (10, 0), (15, 4.5)], 20)


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_an_availability_file_contains_the_availability_from_each_time_on(tmp_path: Path, name: str) -> None:
    trace = availability.read(put(tmp_path, AVAILABLE, name))
    assert (list(trace.pieces), trace.period) == ([(0, 1), (10, 0), (15, 1)], 20)


@pytest.mark.parametrize("text", ["\ufeff" + RATES, RATES.replace("\n", "\r\n"), RATES.replace(",", " , ") + "\n\n"])
def test_additions_of_spreadsheets_are_ignored(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode())
    assert list(rate.read(path).pieces) == [(0, 8), (10, 0), (15, 4.5)]


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
def test_a_written_trace_is_read_unchanged(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rate.write(path, RateTrace([0, 0.1, 1 / 3], [8, 0, 1e-5], 2 / 3))
    assert list(rate.read(path).pieces) == [(0, 8), (0.1, 0), (1 / 3, 1e-5)]
    assert rate.read(path).period == 2 / 3
    availability.write(path, AvailabilityTrace([0, 0.1, 1 / 3], [0, 1, 0], 2 / 3))
    assert list(availability.read(path).pieces) == [(0, 0), (0.1, 1), (1 / 3, 0)]


def test_a_written_file_has_short_numbers(tmp_path: Path) -> None:
    rate.write(tmp_path / "out.csv", RateTrace([0, 10.5], [8, 0.25], 20))
    assert (tmp_path / "out.csv").read_text() == "t_s,mbps\n0,8\n10.5,0.25\n20,\n"


@examples(200)
@given(
    times=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20, unique=True).map(sorted),
    rates=st.lists(st.floats(0, 1e6), min_size=20, max_size=20),
)
def test_any_trace_is_restored_from_a_file(
    tmp_path_factory: pytest.TempPathFactory, times: list[float], rates: list[float]
) -> None:
    *begins, period = [0.0, *times]
    rates[0] = 1e6  # at least a byte must pass
    trace = RateTrace(begins, rates[: len(begins)], period)
    path = tmp_path_factory.mktemp("written") / "trace.csv"
    rate.write(path, trace)
    assert list(rate.read(path).pieces) == list(trace.pieces)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "is '', which is not a header; add 't_s,mbps' (seconds, Mbit/s) as first line"),
        ("0,8\n10,\n", 1, "is '0,8', which is not a header"),
        ("t_ms,kbps\n0,8\n10,\n", 1, "the header is 't_ms,kbps'; it must be 't_s,mbps': convert the columns"),
        ("t_s,available\n0,1\n10,\n", 1, "the header is 't_s,available'; it must be 't_s,mbps'"),
        ("mbps,t_s\n", 1, "the header is 'mbps,t_s'"),
        ("t_s,mbps\n0,8\n5,4\n3,2\n10,\n", 4, "t_s is 3, after 5; times must increase: sort the rows"),
        ("t_s,mbps\n0,8\n0,4\n10,\n", 3, "t_s is 0, after 0"),
        ("t_s,mbps\n0,8\n5,4\n5,\n", 4, "t_s is 5, after 5"),
        ("t_s,mbps\n1,8\n10,\n", 2, "t_s is 1; the first must be 0: subtract 1 from all of them"),
        ("t_s,mbps\n-1,8\n10,\n", 2, "t_s is -1; the first must be 0"),
        ("t_s,mbps\n0,8\nsoon,4\n10,\n", 3, "t_s is 'soon'; it must be a number of seconds"),
        ("t_s,mbps\n0,8\n,4\n10,\n", 3, "t_s is ''; it must be a number of seconds"),
        ("t_s,mbps\n0,8\nnan,4\n10,\n", 3, "t_s is nan; it must be finite"),
        ("t_s,mbps\n0,8\ninf,\n", 3, "t_s is inf; it must be finite"),
        ("t_s,mbps\n0,fast\n10,\n", 2, "mbps is 'fast'; it must be a number of Mbit/s"),
        ("t_s,mbps\n0,8\n5,-4\n10,\n", 3, "mbps is '-4'; it must not be negative: an outage is 0"),
        ("t_s,mbps\n0,8\n5,NaN\n10,\n", 3, "mbps is 'NaN'; it must be finite"),
        ("t_s,mbps\n0,8\n5,1e999\n10,\n", 3, "mbps is '1e999'; it must be finite"),
        ("t_s,mbps\n0,8000000\n10,\n", 2, "mbps is '8000000'; it must be at most 1,000,000 Mbit/s: if it is in bit/s"),
        ("0\n3\n7\n", 1, "is '0', which is not a header; add 't_s,mbps' (seconds, Mbit/s) as first line, or convert"),
        ("t_s,mbps\n0,8,9\n10,\n", 2, "is '0,8,9'; a row is a time, a comma and a value (t_s,mbps)"),
        ("t_s,mbps\n0;8\n10,\n", 2, "is '0;8'; a row is a time, a comma and a value"),
        (
            "t_s,mbps\n0,8\n5,\n10,4\n",
            4,
            "follows a row without mbps; only the last row, which marks the end, has none",
        ),
        ("t_s,mbps\n0,8\n5,4\n", 3, "the last row must have a time and no mbps: it marks the end"),
        ("t_s,mbps\n0,8\n5,4\n1", 4, "is '1'; a row is a time, a comma and a value"),
        ("t_s,mbps\n", 1, "the last row must have a time and no mbps"),
        ("t_s,mbps\n0,\n", 2, "marks the end, but there is no row before it"),
    ],
)
def test_a_wrong_rate_file_is_refused_with_its_line_and_the_remedy(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    path = put(tmp_path, text)
    with pytest.raises(UserError) as caught:
        rate.read(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {problem}")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("t_s,mbps\n0,8\n10,\n", 1, "the header is 't_s,mbps'; it must be 't_s,available'"),
        ("t_s,available\n0,1\n5,0.5\n10,\n", 3, "available is '0.5'; it must be 1 (available) or 0 (away)"),
        ("t_s,available\n0,1\n5,yes\n10,\n", 3, "available is 'yes'"),
        ("t_s,available\n0,1\n5,0\n", 3, "the last row must have a time and no available"),
    ],
)
def test_a_wrong_availability_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = put(tmp_path, text)
    with pytest.raises(UserError) as caught:
        availability.read(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {problem}")


def test_a_rate_that_is_always_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mbps is 0 in every row.*a transfer would never end"):
        rate.read(put(tmp_path, "t_s,mbps\n0,0\n5,0\n10,\n"))


def test_a_device_that_is_never_available_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="available is 0 in every row: the device would never be available"):
        availability.read(put(tmp_path, "t_s,available\n0,0\n10,\n"))


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.csv: no such file"):
        rate.read(tmp_path / "none.csv")
    broken = tmp_path / "broken.csv.gz"
    for content in (b"\x1f\x8bt_s,mbps\n", gzip.compress(RATES.encode())[:-9]):
        broken.write_bytes(content)
        with pytest.raises(UserError, match=r"broken\.csv\.gz: cannot be read"):
            rate.read(broken)
    (tmp_path / "latin.csv").write_bytes(b"t_s,mbps\n0,8\n5,\xe9\n")
    with pytest.raises(UserError, match=r"latin\.csv: cannot be read"):
        rate.read(tmp_path / "latin.csv")
    with pytest.raises(UserError, match="is a folder; name a file in it"):
        rate.read(tmp_path)


def test_a_file_is_read_once_in_a_process(tmp_path: Path) -> None:
    path = str(put(tmp_path, RATES))
    assert rate.load(path) is rate.load(path)
