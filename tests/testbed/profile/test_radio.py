"""The radio cell, with values computed by hand from Table II of Chen et al. 2024."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.common.parameters import ParameterError, build
from testbed.loading import profile_files, profile_loader
from testbed.profile import radio
from testbed.profile.radio import Cell


@pytest.mark.parametrize(("decibels", "ratio"), [(0, 1.0), (10, 10.0), (-30, 1e-3), (3, 10**0.3)])
def test_ten_decibels_are_a_factor_of_ten(decibels: float, ratio: float) -> None:
    assert radio.from_db(decibels) == pytest.approx(ratio)


@pytest.mark.parametrize(("dbm", "watts"), [(0, 1e-3), (10, 0.01), (30, 1.0), (-90, 1e-12)])
def test_zero_dbm_is_a_milliwatt(dbm: float, watts: float) -> None:
    assert radio.from_dbm(dbm) == pytest.approx(watts)


def test_the_signal_to_noise_ratio_at_the_edge_equals_that_computed_by_hand() -> None:
    # 0.01 W · 10^−3 · 500^−2 / 10^−12 W = 4·10^−11 / 10^−12
    assert Cell().snr(500.0, 1.0) == pytest.approx(40.0)
    assert Cell().snr(500.0, 0.5) == pytest.approx(20.0)
    assert Cell().snr(250.0, 1.0) == pytest.approx(160.0)  # half as far, four times as strong


def test_the_shipped_experiment_has_the_values_of_the_papers_table() -> None:
    experiment = profile_loader.load(profile_files.SHIPPED / "experiments" / "asafl" / "mnist.toml")
    assert experiment.cell == Cell()
    assert sum(group.count for group in experiment.devices) == 50
    speeds = [group.profile for group in experiment.devices]
    assert [profile.clock_hz for profile in speeds] == pytest.approx([tenth * 1e8 for tenth in range(1, 9)])
    job = experiment.training
    # T^comp = I·A_b·C_n/f_n, eq. (6), by hand: 8·128·124274.5/10^8
    seconds = [job.steps * job.batch * profile.cycles_per_sample / profile.clock_hz for profile in speeds]
    assert (seconds[0], seconds[-1]) == (pytest.approx(1.27257, abs=1e-5), pytest.approx(1.27257 / 8, abs=1e-5))
    assert {profile.cycles_per_sample * 4 for profile in speeds} == {497_098}  # FLOPs
    assert (job.steps, job.batch, job.lr) == (8, 128, 0.01)
    strategy = experiment.strategy_parameters
    assert strategy["budget"] == pytest.approx(0.1 * strategy["rounds"])  # T_max


def test_the_defaults_are_those_of_the_table() -> None:
    assert Cell() == Cell(radius=500, bandwidth=10e6, power=10, noise=1e-12, gain=-30)
    assert build(Cell, {}, "profile") == Cell()


def test_devices_are_spread_evenly_over_the_disc() -> None:
    places = np.array([Cell().place(part) for part in np.random.default_rng(0).random(100_000)])
    assert places.min() >= radio.NEAREST
    assert places.max() <= 500
    # a quarter of the area lies within half the radius, and the mean distance is two thirds of it
    assert np.mean(places < 250) == pytest.approx(0.25, abs=0.01)
    assert places.mean() == pytest.approx(1000 / 3, rel=0.01)


def test_fading_is_one_on_average_and_never_zero() -> None:
    drawn = radio.fading(100_000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(1.0, abs=0.02)
    assert np.mean(drawn > 1) == pytest.approx(math.exp(-1), abs=0.01)
    assert drawn.min() > 0


def test_the_depth_of_a_fade_is_limited() -> None:
    class Unlucky(np.random.Generator):
        def exponential(self, *_: object) -> np.ndarray:  # type: ignore[override]
            return np.zeros(2)

    assert radio.fading(2, Unlucky(np.random.PCG64(0))).tolist() == [1e-12, 1e-12]


def test_the_same_generator_gives_the_same_fading() -> None:
    def drawn() -> list[float]:
        random = np.random.default_rng([7, 3])
        return [*radio.fading(5, random), *radio.fading(5, random)]

    assert drawn() == drawn()
    assert drawn()[:5] != drawn()[5:]  # each round is different


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bandwidth", 0.0),
        ("bandwidth", -1.0),
        ("noise", 0.0),
        ("noise", math.nan),
        ("radius", 1.0),
        ("radius", math.inf),
    ],
)
def test_a_cell_without_bandwidth_noise_or_area_is_refused(key: str, value: float) -> None:
    with pytest.raises(ParameterError, match=f"^{key} is .*it must be above") as error:
        Cell(**{key: value})
    assert error.value.key == key


@pytest.mark.parametrize("metres", [500.1, 0.0, 0.9, -3.0, math.nan, math.inf])
def test_a_device_outside_the_cell_is_refused(metres: float) -> None:
    with pytest.raises(ParameterError, match=r"distance is .* the radius of the cell: move the device"):
        Cell().snr(metres, 1.0)


@given(st.floats(1, 500), st.floats(1, 500), st.floats(1e-12, 50))
def test_a_nearer_device_never_has_a_lower_signal_to_noise_ratio(one: float, other: float, fading: float) -> None:
    near, far = sorted((one, other))
    assert Cell().snr(near, fading) >= Cell().snr(far, fading) > 0
