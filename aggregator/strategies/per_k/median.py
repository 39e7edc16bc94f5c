"""Median: in each coordinate, the median of K updates.

Yin, Chen, Kannan, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates. ICML 2018
(arXiv:1803.01498), Algorithm 1, option I.

Symbols
    K       updates per version; m in the paper
    Δ_i     −η·g_i, where g_i is the gradient of device i, summed over its local steps

Rule
    Definition 1: the j-th coordinate of med{v_i} is the one-dimensional median of the j-th coordinates of the v_i
    w_{t+1} = w_t − η · med{g_i}  =  w_t + med{Δ_i}

Departures
    The paper is synchronous: all gradients are of w_t. Here K updates make a version, as in SAFL, and a slow device
    contributes a Δ_i of an older model.
    For an even K the median is the mean of the two middle values.
    The projection onto the parameter space is left out: there is no bound on the parameters.
    When fewer than K updates can still arrive, the median is of those that have arrived.
    The recorded weight of an update is its share of the middle values over all coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.pacing import KTrimmed


@dataclass(kw_only=True)
class Median(KTrimmed):
    """Coordinate-wise median of K updates, against Byzantine devices (Yin et al., ICML 2018)."""

    def cut(self, updates: int) -> int:
        return (updates - 1) // 2  # all but the middle value, or the two middle values
