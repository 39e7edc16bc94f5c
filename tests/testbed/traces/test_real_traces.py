"""Real traces, if present: set EDGEBED_TRACES to a folder that contains mahimahi, ucc5g and so on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from testbed.traces.formats import mahimahi
from testbed.traces.rate import RateTrace
from tests.testbed.traces.files import found

MEANS = {
    "ATT-LTE-driving-2016.down": (120, 4.56),
    "ATT-LTE-driving-2016.up": (120, 1.91),
    "ATT-LTE-driving.down": (786, 5.17),
    "ATT-LTE-driving.up": (1012, 0.83),
    "TMobile-LTE-driving.down": (475, 12.77),
    "TMobile-LTE-short.down": (140, 16.70),
    "TMobile-LTE-short.up": (140, 13.32),
    "TMobile-UMTS-driving.down": (928, 2.02),
    "TMobile-UMTS-driving.up": (931, 0.94),
    "Verizon-EVDO-driving.down": (1062, 0.52),
    "Verizon-EVDO-driving.up": (1065, 0.84),
    "Verizon-LTE-short.down": (140, 5.03),
    "Verizon-LTE-short.up": (140, 5.95),
}
"""Seconds, and Mbit/s over the whole file."""


def data(*parts: str) -> Path:
    """Return a file of the data folder. Skip the test if it does not exist."""
    root = os.environ.get("EDGEBED_TRACES")
    if root is None:
        pytest.skip("EDGEBED_TRACES is not set")
    path = Path(root, *parts)
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    return path


@pytest.mark.parametrize("name", MEANS)
def test_mahimahis_links_have_the_expected_means(name: str) -> None:
    seconds, mbps = MEANS[name]
    link = mahimahi.link(data("mahimahi", f"{name}.gz"), 100)
    assert link.period == pytest.approx(seconds, abs=1)
    assert link.mean / 1e6 == pytest.approx(mbps, rel=0.01)


@pytest.mark.parametrize("name", MEANS)
def test_a_real_link_is_exported_and_read_again_unchanged_in_each_second(tmp_path: Path, name: str) -> None:
    link = mahimahi.link(data("mahimahi", f"{name}.gz"), 100)
    mahimahi.write(tmp_path / "x.down", link)
    again = mahimahi.link(tmp_path / "x.down", 100)
    seconds = range(int(link.period))
    assert [again.bytes_between(s, s + 1) for s in seconds] == pytest.approx(
        [link.bytes_between(s, s + 1) for s in seconds], rel=0.01
    )


def rates(kind: str, path: Path) -> dict[str, RateTrace]:
    return {name: entry.down for name, entry in found(kind, path).items() if entry.down is not None}


def test_uccs_table_has_21_downloads() -> None:
    traces = rates("ucc5g", data("ucc5g", "ucc_5g_download.csv.gz"))
    means = [trace.mean / 1e6 for trace in traces.values()]
    assert len(traces) == 21
    assert 3 <= min(means) < 4
    assert 129 < max(means) <= 132


def test_norways_table_has_142_commutes() -> None:
    traces = rates("norway3g", data("norway3g", "norway_hsdpa.csv.gz"))
    means = np.array([trace.mean / 1e6 for trace in traces.values()])
    periods = [trace.period for trace in traces.values()]
    assert len(traces) == 142
    assert (means.min(), means.max()) == (pytest.approx(0.6, abs=0.1), pytest.approx(4.6, abs=0.1))
    assert (min(periods), max(periods)) == (pytest.approx(44, abs=1), pytest.approx(317, abs=1))


def test_flashs_19_phones_have_speeds() -> None:
    phones = found("flash-speed", data("flash", "speed_distri.json"), unit="KiB/s")
    assert len(phones) == 19
    assert phones["e6899215-86a1-4b87-b938-49bf4cd299be"].link["down"]["mbit"] == pytest.approx(7491.4 * 8.192e-3)
