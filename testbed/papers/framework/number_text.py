"""Values over seeds, as the document prints them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def spread(values: Sequence[float], digits: int = 3) -> str:
    """The mean and the range of the values: ``0.912 (0.905 to 0.921)``."""
    if not values:
        return "–"
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def signed(values: Sequence[float], digits: int = 3) -> str:
    """The same with signs, for differences: ``+0.012 (−0.003 to +0.020)``."""
    if not values:
        return "–"
    mean = _sign(fmean(values), digits)
    return mean if len(values) == 1 else f"{mean} ({_sign(min(values), digits)} to {_sign(max(values), digits)})"


def _sign(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")
