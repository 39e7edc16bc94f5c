"""Trimmed mean: in each coordinate, the mean of K updates without the largest and the smallest.

Yin, Chen, Kannan, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates. ICML 2018
(arXiv:1803.01498), Algorithm 1, option II.

Symbols
    K       updates per version; m in the paper
    Δ_i     −η·g_i, where g_i is the gradient of device i, summed over its local steps
    β       share that is removed at each end, from 0 to below 1/2; at least the share of Byzantine devices

Rule
    Definition 2: the j-th coordinate of trmean_β{v_i} is the mean of the j-th coordinates of the v_i without the
    largest and the smallest share β of them
    w_{t+1} = w_t − η · trmean_β{g_i}  =  w_t + trmean_β{Δ_i}

Departures
    The paper is synchronous: all gradients are of w_t. Here K updates make a version, as in SAFL, and a slow device
    contributes a Δ_i of an older model.
    ⌈β·K⌉ values are removed at each end, and at least one remains: the paper does not say how to round.
    The projection onto the parameter space is left out: there is no bound on the parameters.
    When fewer than K updates can still arrive, the rule is applied to those that have arrived.
    The recorded weight of an update is its share of the values that remain over all coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from aggregator.pacing import KTrimmed
from testbed.common.parameters import param

_ROUNDING = 1e-9  # 0.07 · 100 is 7.000…01 in binary


@dataclass(kw_only=True)
class TrimmedMean(KTrimmed):
    """Coordinate-wise trimmed mean of K updates, against Byzantine devices (Yin et al., ICML 2018)."""

    beta: float = param(0.2, "β: share of the values that is removed at each end", at_least=0, below=0.5)

    def cut(self, updates: int) -> int:
        return min(math.ceil(self.beta * updates - _ROUNDING), (updates - 1) // 2)
