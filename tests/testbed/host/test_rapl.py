"""The energy meter of the host, on a fake /sys/class/powercap.

(Root can read every file; a folder in place of a file stands for one that cannot be read.)
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.host.rapl import WHAT, HostEnergy, RaplMeter

RANGE = 999_999
"""Microjoules; after this value the counter continues at 0."""


def zone(root: Path, folder: str, name: str, counter: int | str = 0, limit: int | str = RANGE) -> Path:
    (root / folder).mkdir(parents=True)
    for file, value in (("name", name), ("energy_uj", counter), ("max_energy_range_uj", limit)):
        (root / folder / file).write_text(f"{value}\n", encoding="ascii")
    return root / folder / "energy_uj"


def set_to(counter: Path, value: int) -> None:
    counter.write_text(f"{value}\n", encoding="ascii")


def joules(meter: RaplMeter) -> dict[str, float]:
    report = meter.report()
    assert report is not None
    return report.joules


def test_the_joules_of_each_package_are_counted_from_the_beginning(tmp_path: Path) -> None:
    first, second = (zone(tmp_path, f"intel-rapl:{i}", f"package-{i}", 500_000 * i) for i in range(2))
    meter = RaplMeter(100.0, tmp_path)
    set_to(first, 250_000)
    meter.read(101.0)
    set_to(first, 300_000)
    set_to(second, 500_001)
    meter.read(102.5)
    assert meter.report() == HostEnergy(joules={"intel-rapl:0": 0.3, "intel-rapl:1": 0.0}, seconds=2.5, what=WHAT)


def test_a_counter_that_wraps_is_handled(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 900_000)
    meter = RaplMeter(0.0, tmp_path)
    for moment, value in enumerate((100_000, 50_000, 900_000), 1):  # 0.2 J, 0.95 J and 0.85 J
        set_to(counter, value)
        meter.read(float(moment))
    assert joules(meter) == {"intel-rapl:0": 2.0}


def test_only_packages_are_counted_and_each_once(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0")
    others = [("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "dram"), ("intel-rapl:1", "psys")]
    for folder, name in [*others, ("intel-rapl-mmio:0", "package-0"), ("dtpm", "package-0")]:
        zone(tmp_path, folder, name)
    assert list(joules(RaplMeter(0.0, tmp_path))) == ["intel-rapl:0"]


def test_a_counter_that_cannot_be_read_for_a_while_is_read_later(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0")
    meter = RaplMeter(0.0, tmp_path)
    counter.unlink()
    meter.read(1.0)
    assert joules(meter) == {"intel-rapl:0": 0.0}
    set_to(counter, 750_000)
    meter.read(2.0)
    assert joules(meter) == {"intel-rapl:0": 0.75}


def test_a_counter_that_was_not_readable_at_the_beginning_is_left_out(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0")
    counter = zone(tmp_path, "intel-rapl:1", "package-1")
    counter.unlink()
    counter.mkdir()
    meter = RaplMeter(0.0, tmp_path)
    counter.rmdir()
    set_to(counter, 5)
    meter.read(1.0)
    assert list(joules(meter)) == ["intel-rapl:0"]


def test_without_a_meter_nothing_is_measured(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "absent"):
        meter = RaplMeter(0.0, root)
        meter.read(1.0)
        assert meter.report() is None


@pytest.mark.parametrize("file", ["name", "energy_uj", "max_energy_range_uj"])
def test_a_package_with_an_unreadable_file_is_not_measured(tmp_path: Path, file: str) -> None:
    path = zone(tmp_path, "intel-rapl:0", "package-0").parent / file
    path.unlink()
    path.mkdir()
    assert RaplMeter(0.0, tmp_path).report() is None


@pytest.mark.parametrize("text", ["", "-1", "many", "1.5", "ä"])
def test_a_counter_that_is_not_a_number_is_not_measured(tmp_path: Path, text: str) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0").write_text(text, encoding="utf-8")
    assert RaplMeter(0.0, tmp_path).report() is None
