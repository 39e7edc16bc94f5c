"""A comparison as tables of short texts, for the terminal, the page, Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from testbed.comparison.interval import Interval
from testbed.comparison.pairing import PairedDifference
from testbed.comparison.quantities import COSTS, RESULTS, ComparedGroup, Quantity

NONE = "–"
_FIGURES = 4
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """The first column is the name of the row, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


_Count = tuple[str, Callable[[ComparedGroup], str]]
"""The title of a column that counts runs, and its cell in the row of a group."""
_COUNTS: Mapping[str, _Count] = {
    "final": ("runs", lambda group: str(group.runs)),
    "seconds_to_target": ("reached it", lambda group: f"{group.reached} of {group.runs}"),
}
"""Key of a quantity → the count to the left of it."""


def results(groups: Sequence[ComparedGroup], quantities: Sequence[Quantity]) -> TextTable:
    """A row for each group: its scores, and what it took to reach the target."""
    return _of_groups("Results", groups, [quantity for quantity in quantities if quantity.key in RESULTS])


def costs(groups: Sequence[ComparedGroup], quantities: Sequence[Quantity]) -> TextTable:
    """A row for each group: what its runs used until they ended."""
    return _of_groups("Costs", groups, [quantity for quantity in quantities if quantity.key in COSTS])


def pairs(paired: Sequence[PairedDifference], quantities: Sequence[Quantity]) -> TextTable:
    """A row for each paired difference."""
    known = {quantity.key: quantity for quantity in quantities}
    rows = [
        [
            f"{row.first} − {row.second}",
            known[row.quantity].title,
            str(row.pairs),
            number(row.mean / known[row.quantity].scale),
            p_value(row.p),
            p_value(row.smallest_p),
        ]
        for row in paired
    ]
    columns = ["difference", "of", "pairs", "mean", "p", "smallest possible p"]
    return TextTable(title="Paired differences", columns=columns, rows=rows)


def number(value: float) -> str:
    """Four significant figures, without an exponent; integers have no decimals."""
    digits = 0 if float(value).is_integer() else _digits(value)
    return _signed(f"{value:.{digits}f}" if abs(value) < 10**_FIGURES else f"{value:,.0f}".replace(",", " "))


def mean(found: Interval | None, scale: float = 1.0) -> str:
    """Mean ± half of the interval, with as many digits as the interval justifies."""
    if found is None:
        return NONE
    value, half = found.mean / scale, None if found.half is None else found.half / scale
    if half is None:
        return number(value)
    if not round(half, _MOST_DIGITS):  # only rounding errors
        return f"{number(value)} ± 0"
    digits = _digits(half, 2)
    return _signed(f"{value:.{digits}f} ± {half:.{digits}f}")


def p_value(p: float) -> str:
    return f"{p:.3g}"


def _of_groups(title: str, groups: Sequence[ComparedGroup], quantities: Sequence[Quantity]) -> TextTable:
    """A row for each group; a quantity that no run has is left out."""
    columns, rows = ["strategy"], [[group.label] for group in groups]
    for quantity in quantities:
        if all(group.values[quantity.key] is None for group in groups):
            continue
        if quantity.key in _COUNTS:
            counted, count = _COUNTS[quantity.key]
            columns.append(counted)
            for row, group in zip(rows, groups, strict=True):
                row.append(count(group))
        columns.append(quantity.title)
        for row, group in zip(rows, groups, strict=True):
            row.append(mean(group.values[quantity.key], quantity.scale))
    return TextTable(title=title, columns=columns, rows=rows)


def _digits(value: float, figures: int = _FIGURES) -> int:
    """Decimals with which a value has this many significant figures."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(_MOST_DIGITS, max(0, figures - 1 - math.floor(math.log10(abs(value)))))


def _signed(text: str) -> str:
    return text.replace("-", "−")
