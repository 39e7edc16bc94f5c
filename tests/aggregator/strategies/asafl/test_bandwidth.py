"""Shares of the band: by hand, against a search that does not use eq. (17), and by properties."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.strategies.asafl.bandwidth import Upload, bounds, equal, optimal, rate

MHZ = 1e6


def ready(bits: float, snr: float = 1.0, *, after: float = 0.0) -> Upload:
    return Upload(bits=bits, snr=snr, remaining=after)


UPLOADS = st.lists(
    st.builds(
        Upload,
        bits=st.floats(1e3, 1e9),
        snr=st.floats(-12, 12).map(lambda exponent: 10.0**exponent),
        remaining=st.one_of(st.just(0.0), st.floats(1e-6, 1e4)),
    ),
    min_size=1,
    max_size=12,
)
BANDS = st.floats(1e3, 1e9)


# ---- by hand


def test_the_rate_is_the_share_of_the_band_times_what_a_hertz_carries() -> None:
    assert rate(0.25, 10 * MHZ, 3.0) == pytest.approx(5 * MHZ)  # ¼ · 10 MHz · log2(4)
    assert rate(0.5, 10 * MHZ, 3.0) == pytest.approx(10 * MHZ)  # twice the share, twice the rate: σ² does not change


def test_in_a_deep_fade_there_is_still_a_rate() -> None:
    assert rate(1.0, 1.0, 1e-20) == pytest.approx(1e-20 / math.log(2), abs=0)  # 1 + 1e-20 is 1


def test_one_device_has_the_whole_band() -> None:
    found = optimal([ready(2e6, after=3.0)], MHZ)
    assert (found.shares, found.seconds) == ((1.0,), 5.0)  # 3 s, and 2 Mbit at 1 Mbit/s


def test_a_device_that_sends_twice_as_much_has_twice_the_share() -> None:
    found = optimal([ready(2e6), ready(1e6)], MHZ)
    assert found.shares == pytest.approx((2 / 3, 1 / 3))
    assert found.seconds == pytest.approx(3.0)  # 3 Mbit at 1 Mbit/s


def test_a_device_that_is_ready_later_has_the_larger_share() -> None:
    # a = 1 s each: 1/T + 1/(T − 1.5) = 1 has the solution T = 3: ⅓ + ⅔
    found = optimal([ready(1e6), ready(1e6, after=1.5)], MHZ)
    assert found.shares == pytest.approx((1 / 3, 2 / 3))
    assert found.seconds == pytest.approx(3.0)
    assert equal([ready(1e6), ready(1e6, after=1.5)], MHZ).seconds == 3.5  # 1.5 + 1/½


def test_equal_shares_end_with_the_slowest() -> None:
    found = equal([ready(1e6), ready(1e6, snr=3.0), ready(3e6, after=0.5), ready(1e6)], MHZ)
    assert found.shares == (0.25, 0.25, 0.25, 0.25)
    assert found.seconds == 12.5  # 0.5 + 3/¼; the others take 4, 2 and 4 s


def test_the_shares_are_right_even_if_the_lower_bound_is_before_a_device_is_ready() -> None:
    # (19): 2·1 + 0 = 2 s, but the second is ready after 100 s: at T = 60 eq. (17) gives 1/60 − 1/40 < 0
    uploads = [ready(1e6), ready(1e6, after=100.0)]
    assert bounds(uploads, MHZ) == pytest.approx((2.0, 102.0))
    found = optimal(uploads, MHZ)
    assert found.seconds == pytest.approx(51 + math.sqrt(2501))  # 1/T + 1/(T − 100) = 1
    assert all(share > 0 for share in found.shares)


def test_a_short_upload_after_a_very_long_wait_is_exact() -> None:
    found = optimal([ready(1e-3, after=1e7), ready(1e-3, after=1e7)], MHZ)  # a = 1 ns beside 1e7 s
    assert found.shares == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(
    ("bits", "snr", "remaining"),
    [(0, 1, 0), (1, 0, 0), (1, 1, -1), (math.nan, 1, 0), (1, math.inf, 0), (1, 1, math.inf)],
)
def test_an_upload_without_bits_or_link_or_end_is_refused(bits: float, snr: float, remaining: float) -> None:
    with pytest.raises(ValueError, match="an upload whose"):
        Upload(bits=bits, snr=snr, remaining=remaining)


@pytest.mark.parametrize("allocate", [optimal, equal, bounds])
def test_an_invalid_band_and_an_empty_list_of_uploads_are_refused(allocate: object) -> None:
    for uploads, band in ([ready(1.0)], 0.0), ([ready(1.0)], math.inf), ([], MHZ):
        with pytest.raises(ValueError, match="uploads over a band of"):
            allocate(uploads, band)  # type: ignore[operator]


# ---- against a search over all shares


def best_of_a_grid(uploads: list[Upload], bandwidth: float, grid: np.ndarray) -> float:
    """Return the best latency on a grid over the shares of all devices except the last, which has the rest."""
    best = math.inf
    *some, last = uploads
    for given_away in itertools.product(grid, repeat=len(some) - 1):
        rest = 1 - sum(given_away) - grid
        fits = rest > 0
        shares = [*given_away, grid[fits], rest[fits]]
        ends = [
            upload.remaining + upload.bits / (share * bandwidth * math.log2(1 + upload.snr))
            for upload, share in zip([*some, last], shares, strict=True)
        ]
        latest = np.maximum.reduce(np.broadcast_arrays(*ends))
        best = min(best, float(latest.min(initial=math.inf)))
    return best


FINE = np.unique(np.concatenate([np.geomspace(1e-9, 1, 60_000), 1 - np.geomspace(1e-9, 1, 60_000)]))[1:-1]


@pytest.mark.parametrize("snrs", [(1.0, 1.0), (1e-3, 1e3), (40.0, 1e6), (1e-6, 1e6)])
@pytest.mark.parametrize("remaining", [(0.0, 0.0), (0.0, 0.3), (5.0, 0.0), (2.0, 2.1)])
def test_no_shares_of_two_devices_on_a_fine_grid_are_better(
    snrs: tuple[float, float], remaining: tuple[float, float]
) -> None:
    uploads = [Upload(bits=629_440, snr=snr, remaining=wait) for snr, wait in zip(snrs, remaining, strict=True)]
    found = optimal(uploads, 10 * MHZ).seconds
    searched = best_of_a_grid(uploads, 10 * MHZ, FINE)
    assert found <= searched * (1 + 1e-9)
    assert found == pytest.approx(searched, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_no_shares_of_three_devices_on_a_grid_are_better(seed: int) -> None:
    draw = np.random.default_rng(seed)
    drawn = draw.uniform((2e5, 5, 0), (1e6, 200, 0.1), (3, 3)).tolist()
    uploads = [Upload(bits=bits, snr=snr, remaining=remaining) for bits, snr, remaining in drawn]
    found = optimal(uploads, 10 * MHZ).seconds
    searched = best_of_a_grid(uploads, 10 * MHZ, np.linspace(0, 1, 2501)[1:-1])
    assert found <= searched * (1 + 1e-9)
    assert found == pytest.approx(searched, rel=1e-3)


# ---- properties


@given(UPLOADS, BANDS)
def test_the_shares_add_up_to_one_and_all_end_together(uploads: list[Upload], bandwidth: float) -> None:
    found = optimal(uploads, bandwidth)
    assert sum(found.shares) == pytest.approx(1.0, rel=1e-12)
    assert all(0 < share <= 1 for share in found.shares)
    for upload, share in zip(uploads, found.shares, strict=True):  # (43)
        end = upload.remaining + upload.bits / rate(share, bandwidth, upload.snr)
        assert end == pytest.approx(found.seconds, rel=1e-8, abs=0)


@given(UPLOADS, BANDS)
def test_the_latency_lies_between_the_bounds_of_the_paper(uploads: list[Upload], bandwidth: float) -> None:
    low, up = bounds(uploads, bandwidth)
    assert low * (1 - 1e-8) <= optimal(uploads, bandwidth).seconds <= up * (1 + 1e-8)


@given(UPLOADS, BANDS)
def test_the_optimal_shares_are_never_worse_than_equal_ones(uploads: list[Upload], bandwidth: float) -> None:
    assert optimal(uploads, bandwidth).seconds <= equal(uploads, bandwidth).seconds * (1 + 1e-8)


@given(UPLOADS, BANDS, st.floats(1.001, 1000))
def test_more_band_never_takes_longer(uploads: list[Upload], bandwidth: float, more: float) -> None:
    assert optimal(uploads, bandwidth * more).seconds <= optimal(uploads, bandwidth).seconds * (1 + 1e-8)


@given(UPLOADS, UPLOADS, BANDS)
def test_more_devices_never_take_less_time(uploads: list[Upload], others: list[Upload], bandwidth: float) -> None:
    assert optimal([*uploads, *others], bandwidth).seconds >= optimal(uploads, bandwidth).seconds * (1 - 1e-8)


@given(UPLOADS, BANDS, st.randoms(use_true_random=False))
def test_the_order_of_the_devices_does_not_matter(uploads: list[Upload], bandwidth: float, chance: object) -> None:
    order = list(range(len(uploads)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    shuffled, found = optimal([uploads[i] for i in order], bandwidth), optimal(uploads, bandwidth)
    assert shuffled.seconds == pytest.approx(found.seconds, rel=1e-8, abs=0)
    assert shuffled.shares == pytest.approx([found.shares[i] for i in order], rel=1e-6, abs=0)
