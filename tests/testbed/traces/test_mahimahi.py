"""Import and export of Mahimahi's link traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.common.errors import UserError
from testbed.traces import rate
from testbed.traces.formats import mahimahi
from testbed.traces.rate import RateTrace
from tests.testbed.traces.files import only, problem, write


def milliseconds(*moments: int) -> str:
    return "".join(f"{moment}\n" for moment in moments)


def per_second(trace: RateTrace) -> list[float]:
    """Return the Mbit/s in each whole second."""
    return [trace.bytes_between(second, second + 1) * 8e-6 for second in range(int(trace.period))]


def test_a_line_is_1500_bytes_and_the_last_is_the_length(tmp_path: Path) -> None:
    found = only("mahimahi", write(tmp_path / "x.down", milliseconds(0, 0, 50, 150, 200)), bin=0.1)
    assert found.down is not None
    assert found.name == "x"
    assert list(found.down.pieces) == [(0.0, pytest.approx(3 * 12000 / 1e5)), (0.1, pytest.approx(2 * 12000 / 1e5))]
    assert found.down.period == 0.2
    assert found.down.mean == pytest.approx(5 * 12000 / 0.2)


def test_a_shorter_last_bin_keeps_its_bytes(tmp_path: Path) -> None:
    found = only("mahimahi", write(tmp_path / "x.down", milliseconds(0, 100, 102)))
    assert found.down is not None
    assert found.down.period == 0.102
    assert found.down.bytes_between(0, 0.1) == pytest.approx(1500)
    assert found.down.bytes_between(0.1, 0.102) == pytest.approx(3000)


def test_seconds_without_a_line_are_an_outage(tmp_path: Path) -> None:
    found = only("mahimahi", write(tmp_path / "x.down", milliseconds(10, 5000)), bin=1.0)
    assert found.down is not None
    assert [mbps for _, mbps in found.down.pieces] == [0.012, 0.0, 0.012]


def test_up_and_down_are_two_files_which_may_be_compressed(tmp_path: Path) -> None:
    down = write(tmp_path / "x.down.gz", milliseconds(500, 1000))
    up = write(tmp_path / "x.up.gz", milliseconds(2000))
    found = only("mahimahi", down, up=up)
    assert found.down is not None
    assert found.up is not None
    assert (found.down.mean, found.up.mean) == (pytest.approx(24000), pytest.approx(6000))


def test_an_outage_may_last_for_years(tmp_path: Path) -> None:
    found = only("mahimahi", write(tmp_path / "x.down", milliseconds(5, 10**14)))
    assert found.down is not None
    assert [moment for moment, _ in found.down.pieces] == [0.0, 0.1, 99_999_999_999.9]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n\n2\n", "line 2: is ''; each line must be a whole number of milliseconds"),
        ("1\n2.5\n", "line 2: is '2.5'"),
        ("1\n-2\n", "line 2: is '-2'"),
        ("5\n9\n7\n", "line 3: is 7, after 9; times must not decrease"),
        ("5\n9\n1", "remove the last one if the file is incomplete"),
        ("5\n" + "9" * 20, "line 2: is '999"),
        ("0\n0\n", "lasts 0 ms"),
        ("", "lasts 0 ms"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path / "x.down", text)
    message = problem("mahimahi", path)
    assert message.startswith(str(path))
    assert expected in message


def test_an_uplink_in_place_of_the_downlink_is_refused(tmp_path: Path) -> None:
    assert "--up" in problem("mahimahi", write(tmp_path / "x.up", milliseconds(5)))


def test_a_bin_is_whole_milliseconds(tmp_path: Path) -> None:
    assert "--bin is 0.0015" in problem("mahimahi", write(tmp_path / "x.down", milliseconds(5)), bin=0.0015)


# ---- export


def exported(folder: Path, trace: RateTrace) -> tuple[list[int], RateTrace]:
    """Return the written lines, and the trace that is read from them."""
    own, link = folder / "own.csv", folder / "own.down"
    rate.write(own, trace)
    mahimahi.write(link, rate.read(own))
    return [int(line) for line in link.read_text(encoding="ascii").splitlines()], mahimahi.link(link, 100)


def test_an_exported_rate_is_read_again_within_one_percent_of_each_second(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rates = rng.uniform(1.5, 60.0, 120)
    trace = RateTrace([*np.arange(0, 60, 0.5)], rates, 60.0)
    _, again = exported(tmp_path, trace)
    assert again.period == trace.period
    assert again.mean == pytest.approx(trace.mean, rel=1e-4)
    assert per_second(again) == pytest.approx(per_second(trace), rel=0.01)


def test_the_error_of_a_slow_link_is_less_than_a_packet_per_second(tmp_path: Path) -> None:
    trace = RateTrace([0.0, 10.0, 20.0], [0.1, 0.0, 0.37], 60.0)
    _, again = exported(tmp_path, trace)
    assert per_second(again) == pytest.approx(per_second(trace), abs=0.012 + 1e-9)


def test_an_imported_trace_is_exported_unchanged_in_every_bin(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    moments = np.sort(rng.integers(0, 30_000, 5000)).tolist()
    link = mahimahi.link(write(tmp_path / "x.down", milliseconds(*moments)), 100)
    _, again = exported(tmp_path, link)
    assert again.period == link.period
    tenths = range(int(link.period * 10))
    assert [round(again.bytes_between(k / 10, (k + 1) / 10)) for k in tenths] == [
        round(link.bytes_between(k / 10, (k + 1) / 10)) for k in tenths
    ]


def test_the_last_line_is_the_length_of_the_trace_even_after_an_outage(tmp_path: Path) -> None:
    lines, again = exported(tmp_path, RateTrace([0.0, 1.0], [1.2, 0.0], 30.0))
    assert lines[-1] == 30_000
    assert len(lines) == 100
    assert lines == sorted(lines)
    assert again.period == 30.0


def test_a_trace_without_a_packet_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "x.down"
    with pytest.raises(UserError, match="half a packet"):
        mahimahi.write(target, RateTrace([0.0], [0.0001], 1.0))
    assert not target.exists()
