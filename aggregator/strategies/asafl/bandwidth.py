"""Shares of the uplink band for the devices of a round, such that all uploads end at the same moment.

Chen, Yi, Shin, Nallanathan: Adaptive Semi-Asynchronous Federated Learning over Wireless Networks. 2024, section IV.B,
Algorithm 2. The equal shares are its baseline EBA (section V.C).

Symbols
    S, K        the devices that upload, and their number
    B           bandwidth of the cell in Hz
    ϑ_n         share of B that device n has for the whole round
    T_n^rem     seconds until it has finished computing; 0: it is ready
    Q·q         bits that it sends
    p·h/σ²      power times gain over noise: its link
    a_n         Q·q/(B log2(1 + p·h/σ²)), seconds of its upload with the whole band

Rule
    r_n = ϑ_n·B·log2(1 + p·h/σ²),   T_n^comm = Q·q/r_n                          (7)
    T = max_n (T_n^rem + T_n^comm)                                              (8)
    ϑ_n = a_n/(T* − T_n^rem),   with T* such that Σϑ_n = 1                      (17)
    K·min a_n + min T_n^rem  ≤  T*  ≤  K·max a_n + max T_n^rem                  (19), (20)
    T* is found by bisection between them                                       Algorithm 2

Readings
    σ² does not scale with ϑ: (7) uses the noise of the whole band, however small the share of a device is. So the
    rate is linear in ϑ, which (17) needs.

Departures
    (19) may lie below some T_n^rem. There (17) is negative, Σϑ has no meaning, and Algorithm 2 as printed ends at
    once or goes the wrong way. T* is also at least T_n^rem + a_n for each n, since ϑ_n ≤ 1 (9c): the bisection begins
    there.
    The bisection is over T − max T_n^rem, and ``precision`` is relative to that: a short upload after a long wait is
    exact. The rest of the band after the bisection is shared in proportion, so that Σϑ = 1.
    Devices may send different numbers of bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_PRECISION = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The upload of one device: its size, its link, and when it can begin."""

    bits: float
    """Q·q."""
    snr: float
    """p·h/σ², not in dB."""
    remaining: float = 0.0
    """T^rem: seconds until the update is computed."""

    def __post_init__(self) -> None:
        for name, value, fits in (
            ("bits", self.bits, self.bits > 0),
            ("snr", self.snr, self.snr > 0),
            ("remaining", self.remaining, self.remaining >= 0),
        ):
            if not fits or not math.isfinite(value):
                raise ValueError(f"an upload whose {name} is {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The shares of the band, in the order of the uploads."""

    shares: tuple[float, ...]
    seconds: float
    """T: the length of the round."""


Allocate: TypeAlias = Callable[[Sequence[Upload], float], Allocation]
"""Uploads and bandwidth → shares: :func:`optimal`, or :func:`equal`."""


def rate(share: float, bandwidth: float, snr: float) -> float:
    """Return bits per second."""
    # log2(1 + x) by log1p: in a deep fade 1 + x is 1
    return share * bandwidth * math.log1p(snr) / math.log(2)  # r_n, before (7)


def bounds(uploads: Sequence[Upload], bandwidth: float) -> tuple[float, float]:
    """Return the paper's lower and upper bound of the optimal latency, in seconds."""
    whole, (latest, before) = _with_the_whole_band(uploads, bandwidth), _readiness(uploads)
    low, up = _bounds(whole, before)
    return latest + low, latest + up


def _bounds(whole: Sequence[float], before: Sequence[float]) -> tuple[float, float]:
    """Return the same, counted from the moment at which the latest device is ready: exact even after a long wait."""
    return len(whole) * min(whole) - max(before), len(whole) * max(whole)  # (19), (20)


def _readiness(uploads: Sequence[Upload]) -> tuple[float, list[float]]:
    """Return when the latest device is ready, and how long before that each device is ready."""
    latest = max(upload.remaining for upload in uploads)
    return latest, [latest - upload.remaining for upload in uploads]


def optimal(uploads: Sequence[Upload], bandwidth: float, precision: float = _PRECISION) -> Allocation:
    """Return the shares with which the last upload ends as early as possible."""
    whole = _with_the_whole_band(uploads, bandwidth)
    _, before = _readiness(uploads)
    low, up = _bounds(whole, before)
    low = max(low, *(a - early for a, early in zip(whole, before, strict=True)))  # ϑ_n ≤ 1 (9c)
    up = max(low, up)  # equal devices: both bounds are the same, except for rounding
    pairs = list(zip(whole, before, strict=True))
    while up - low > precision * up:  # Algorithm 2, counted from the latest T_n^rem
        mid = (low + up) / 2
        if not low < mid < up:
            break  # there is no number between them
        if sum([a / (mid + early) for a, early in pairs]) > 1:  # (17)
            low = mid
        else:
            up = mid
    shares = [a / (up + early) for a, early in pairs]  # (17)
    total = sum(shares)
    return _allocation(uploads, whole, [share / total for share in shares])


def equal(uploads: Sequence[Upload], bandwidth: float) -> Allocation:
    """Return equal shares (EBA)."""
    whole = _with_the_whole_band(uploads, bandwidth)
    return _allocation(uploads, whole, [1 / len(whole)] * len(whole))


def _with_the_whole_band(uploads: Sequence[Upload], bandwidth: float) -> list[float]:
    """Return a_n of each device. Raise ValueError without uploads or with an invalid band."""
    if not uploads or not 0 < bandwidth < math.inf:
        raise ValueError(f"{len(uploads)} uploads over a band of {bandwidth} Hz")
    return [upload.bits / rate(1.0, bandwidth, upload.snr) for upload in uploads]


def _allocation(uploads: Sequence[Upload], whole: Sequence[float], shares: Sequence[float]) -> Allocation:
    ends = (upload.remaining + a / share for upload, a, share in zip(uploads, whole, shares, strict=True))  # (7)
    return Allocation(shares=tuple(shares), seconds=max(ends))  # (8)
