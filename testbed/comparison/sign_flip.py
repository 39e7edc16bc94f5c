"""The sign-flip permutation test: could paired differences be as large if the two strategies were exchangeable?

If two strategies are equal, each difference could as well have the other sign. p is the share of all assignments of
signs whose mean is at least as far from 0 as the observed one. The test assumes no distribution. With few pairs p
cannot be small: two of the 2ⁿ assignments are always as extreme as the most extreme observation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

EXACT_PAIRS = 16
"""Up to this number of pairs the test uses all 2ⁿ assignments."""
DRAWN = 20_000
"""Random assignments for more pairs."""
_SEED = 20_000
_ROUNDING = 1e-9


def p_value(differences: Sequence[float]) -> float:
    """The two-sided p-value."""
    values = np.asarray(differences, dtype=np.float64)
    found = abs(values.sum())
    reach = found - _ROUNDING * np.abs(values).sum()  # sums in another order may differ in the last digit
    sums = np.abs(_signs(len(values)) @ values)
    extreme = int((sums >= reach).sum())
    # among random assignments the observed one counts, too, so that p is never 0
    return extreme / len(sums) if len(values) <= EXACT_PAIRS else (extreme + 1) / (len(sums) + 1)


def smallest(pairs: int) -> float:
    """The smallest p that this number of pairs can give."""
    return min(1.0, 2.0 ** (1 - pairs)) if pairs <= EXACT_PAIRS else 1 / (DRAWN + 1)


def pairs_for(p: float) -> int:
    """The smallest number of pairs with which the test can give at most ``p``."""
    return next(pairs for pairs in range(1, EXACT_PAIRS + 2) if smallest(pairs) <= p)


def _signs(pairs: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    if pairs > EXACT_PAIRS:
        return np.random.default_rng(_SEED).choice((-1.0, 1.0), size=(DRAWN, pairs))
    numbers = np.arange(2**pairs, dtype=np.int64)[:, None]
    return np.where(numbers >> np.arange(pairs) & 1, 1.0, -1.0)
