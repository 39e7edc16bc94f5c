"""Rates in text files: the project's own, UCC's 5G, Norway's 3G, Pensieve's; and lists of availability."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.traces.files import found, only, problem, write

# ---- the project's own


def test_an_own_rate_is_read_with_its_uplink(tmp_path: Path) -> None:
    down = write(tmp_path / "a.csv.gz", "t_s,mbps\n0,4\n2,0\n3,\n")
    entry = only("csv", down, up=write(tmp_path / "b.csv", "t_s,mbps\n0,1\n1,\n"))
    assert entry.down is not None
    assert entry.up is not None
    assert list(entry.down.pieces) == [(0, 4), (2, 0)]
    assert entry.up.mean == 1e6


def test_availability_is_recognised_by_its_header(tmp_path: Path) -> None:
    entry = only("csv", write(tmp_path / "a.csv", "t_s,available\n0,1\n5,0\n8,\n"))
    assert entry.availability is not None
    assert entry.availability.share == 5 / 8


@pytest.mark.parametrize("text", ["t_s,kbps\n0,4\n2,\n", "0,4\n", "t_s,mbps\n0,4\n0,5\n2,\n", "t_s,mbps\n0,4\n"])
def test_an_invalid_own_file_is_refused_with_the_line(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.csv", text)
    assert problem("csv", path).startswith(f"{path}, line ")


def test_availability_has_no_uplink(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t_s,available\n0,1\n5,\n")
    assert "--up" in problem("csv", path, up=write(tmp_path / "b.csv", "t_s,mbps\n0,1\n1,\n"))


# ---- UCC 5G

G_NET_TRACK = """\
Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,UL_bitrate,State,\
PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,RAWCELLID,NRxRSRP,NRxRSRQ
"""


def measured(moment: str, kbps: str, ping: str = "-") -> str:
    return f"2020.01.16_10.{moment},-8.5,51.9,0,B,12,5G,-96,-14,7,7,-,{kbps},99,D,{ping},-,-,-,-,A,B,C,1,-,-\n"


def test_a_gnettrack_log_is_in_kbit_per_second_and_a_rate_is_valid_until_the_next_row(tmp_path: Path) -> None:
    rows = (("43.34", "8000", "60"), ("43.35", "-"), ("43.35", "1"), ("43.37", "16000", "80"), ("43.38", "0", "100"))
    entry = only("ucc5g", write(tmp_path / "log.csv", G_NET_TRACK + "".join(measured(*row) for row in rows)))
    assert entry.down is not None
    assert list(entry.down.pieces) == [(0, 8.0), (3, 16.0), (4, 0.0)]
    assert entry.down.period == 5
    assert entry.delay == 0.04
    assert entry.up is None
    assert "not what it could have sent" in entry.notes[0]


def test_trim_removes_idle_seconds_at_the_start(tmp_path: Path) -> None:
    rows = (("43.34", "0"), ("43.35", "0"), ("43.36", "5000"))
    path = write(tmp_path / "log.csv", G_NET_TRACK + "".join(measured(*row) for row in rows))
    whole, cut = only("ucc5g", path).down, only("ucc5g", path, trim=True).down
    assert whole is not None
    assert cut is not None
    assert (whole.period, cut.period) == (3, 1)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (measured("43.34", "5") + measured("43.30", "5"), "line 3: second is -4, after 0; times must not decrease"),
        (measured("43.34", "fast"), "line 2: the rate is 'fast'"),
        (measured("43.34", "-5"), "line 2: the rate is -5.0"),
        ("16/01/2020" + measured("43.34", "5")[19:], "line 2: Timestamp is '16/01/2020'"),
        (measured("43.34", "5")[:40], "line 2: has 8 cells, but the header has 26"),
        (measured("43.34", "-"), "no rate in any row"),
        (measured("43.34", "0"), "is not a valid trace of a rate"),
    ],
)
def test_a_wrong_row_of_a_log_is_refused_with_its_number(tmp_path: Path, rows: str, expected: str) -> None:
    path = write(tmp_path / "log.csv", G_NET_TRACK + rows)
    message = problem("ucc5g", path)
    assert message.startswith(str(path))
    assert expected in message


def test_another_csv_is_refused_by_its_header(tmp_path: Path) -> None:
    message = problem("ucc5g", write(tmp_path / "x.csv", "time,rate\n0,5\n"))
    assert "has no column 'Timestamp'" in message


def test_many_logs_in_one_table_are_separated(tmp_path: Path) -> None:
    header = "trace,mobility,second,network_mode,dl_kbps,ul_kbps,ping_avg_ms,ping_loss\n"
    rows = "a,static,0,5G,72,20,,\na,static,2,5G,1000,0,50,0\nb,driving,0,LTE,5000,1,,\n"
    entries = found("ucc5g", write(tmp_path / "x.csv.gz", header + rows))
    assert list(entries) == ["a", "b"]
    a, b = entries["a"].down, entries["b"].down
    assert a is not None
    assert b is not None
    assert list(a.pieces) == [(0, 0.072), (2, 1.0)]
    assert (a.period, b.mean) == (3, 5e6)
    assert (entries["a"].delay, entries["b"].delay) == (0.025, None)


# ---- Norway's 3G


def test_a_log_of_six_columns_has_bytes_and_milliseconds_since_the_line_above(tmp_path: Path) -> None:
    lines = (
        "1289406399 549692 59.851754 10.781778 250000 1000\n"
        "1289406401 550772 59.851864 10.781833 0 1080\n"
        "1289406402 551272 59.851964 10.781901 62500 500\n"
    )
    entry = only("norway3g", write(tmp_path / "report.log", lines))
    assert entry.down is not None
    assert list(entry.down.pieces) == [(0, 2.0), (1.0, 0.0), (2.08, 1.0)]
    assert entry.down.period == 2.58


def test_the_three_necessary_columns_are_enough(tmp_path: Path) -> None:
    entry = only("norway3g", write(tmp_path / "x.txt", "1000 125000 1000\n1000 125000 0\n2000, 125000, 1000\n"))
    assert entry.down is not None
    assert list(entry.down.pieces) == [(0, 1.0), (1.0, 2.0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000 5 1000\n900 5 100\n", "line 2: t_ms is 900, after 1000"),
        ("1000 5\n", "line 1: has 2 columns"),
        ("1000 x 5\n", "line 1: bytes is 'x'"),
        ("", "has no duration"),
    ],
)
def test_a_wrong_line_of_a_log_is_refused_with_its_number(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path / "x.log", text)
    message = problem("norway3g", path)
    assert message.startswith(str(path))
    assert expected in message


def test_many_commutes_in_one_table_are_separated(tmp_path: Path) -> None:
    rows = "trace,t_s,mbps\nbus,0.000,9\nbus,0.550,4\nbus,1.5,2\ncar,0,1\ncar,2,3\n"
    entries = found("norway3g", write(tmp_path / "x.csv.gz", rows))
    bus, car = entries["bus"].down, entries["car"].down
    assert bus is not None
    assert car is not None
    assert list(bus.pieces) == [(0, 4.0), (0.55, 2.0)]
    assert (bus.period, car.mean) == (1.5, 3e6)


# ---- Pensieve's


def test_a_rate_is_that_of_the_time_since_the_line_above(tmp_path: Path) -> None:
    down = write(tmp_path / "trace_1", "0.5 7\n1.0 4.0\n2.5 2.0\n")
    entry = only("pensieve", down, up=write(tmp_path / "up", "0 1\n1 1\n"))
    assert entry.down is not None
    assert entry.up is not None
    assert list(entry.down.pieces) == [(0, 4.0), (0.5, 2.0)]
    assert entry.down.period == 2.0
    assert entry.up.mean == 1e6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 1\n1 2\n1 3\n", "line 3: time is 1, after 1; times must increase"),
        ("0 1\n1\n", "line 2: is '1'"),
        ("0 1\n1 nan\n", "line 2: the rate is nan"),
        ("0 1\n", "has no duration"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path / "x", text)
    message = problem("pensieve", path)
    assert message.startswith(str(path))
    assert expected in message


# ---- lists of availability


def test_spans_of_all_clients_end_together(tmp_path: Path) -> None:
    entries = found("plato", write(tmp_path / "x.json", {"1": [[0, 60], [120, 300]], "two": [[30, 40]]}))
    one, two = entries["1"], entries["two"]
    assert one.availability is not None
    assert two.availability is not None
    assert (one.name, two.name) == ("client-1", "two")
    assert list(one.availability.pieces) == [(0, 1), (60, 0), (120, 1)]
    assert list(two.availability.pieces) == [(0, 0), (30, 1), (40, 0)]
    assert two.availability.period == 300


def test_slots_need_a_length(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", {"1": [1, 1, 0, True]})
    entry = only("plato", path, slot=10.0)
    assert entry.availability is not None
    assert list(entry.availability.pieces) == [(0, 1), (20, 0), (30, 1)]
    assert "--slot" in problem("plato", path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([[0, 60], [50, 70]], "span 1 is [50, 70], after 60"),
        ([[5, 2]], "span 0 is [5, 2]"),
        ([[5, "x"]], "span 0 is 'x'"),
        ([0, 2], "neither 1 nor 0"),
        ([0, 0], "never available"),
        ([], "is []; it must be a list"),
        ("always", "is 'always'"),
        ([[1, 2], 0], "it must be a list of [start, end]"),
    ],
)
def test_a_wrong_list_is_refused_with_its_client(tmp_path: Path, value: object, expected: str) -> None:
    path = write(tmp_path / "x.json", {"9": value})
    message = problem("plato", path, slot=1.0)
    assert message.startswith(f"{path}, '9': ")
    assert expected in message


# ---- all formats


@pytest.mark.parametrize("kind", ["csv", "mahimahi", "fedscale-capacity", "flash-state", "ucc5g", "norway3g", "plato"])
def test_a_missing_or_incomplete_file_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.gz"
    assert problem(kind, path).startswith(f"{path}: no such file")
    path.write_bytes(write(tmp_path / "y.gz", "0 1\n" * 1000).read_bytes()[:-20])
    assert str(path) in problem(kind, path)
