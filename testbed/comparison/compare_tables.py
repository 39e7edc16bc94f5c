"""A comparison as tables of short texts, for the terminal, the page, Markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.comparison.quantities import COSTS, RESULTS

NONE = "–"
_FIGURES = 4
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """The first column is the name of the row, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(table: Mapping[str, Any]) -> list[TextTable]:
    """Results, costs and, if there are any, paired differences."""
    both = [
        _groups(table, "Results", RESULTS, {"final": ["runs"], "seconds_to_target": ["reached it"]}),
        _groups(table, "Costs", COSTS, {}),
    ]
    return [*both, *([_pairs(table)] if table["paired"] else [])]


def number(value: float) -> str:
    """Four significant figures, without an exponent; integers have no decimals."""
    digits = 0 if float(value).is_integer() else _digits(value)
    return _signed(f"{value:.{digits}f}" if abs(value) < 10**_FIGURES else f"{value:,.0f}".replace(",", " "))


def mean(found: Mapping[str, Any] | None, scale: float = 1.0) -> str:
    """Mean ± half of the interval, with as many digits as the interval justifies."""
    if found is None:
        return NONE
    value, half = found["mean"] / scale, None if found["half"] is None else found["half"] / scale
    if half is None:
        return number(value)
    if not round(half, _MOST_DIGITS):  # only rounding errors
        return f"{number(value)} ± 0"
    digits = _digits(half, 2)
    return _signed(f"{value:.{digits}f} ± {half:.{digits}f}")


def p_value(p: float) -> str:
    return f"{p:.3g}"


def _groups(
    table: Mapping[str, Any], title: str, keys: Sequence[str], before: Mapping[str, Sequence[str]]
) -> TextTable:
    """A row for each group; a quantity that no run has is left out. ``before``: columns that count runs."""
    quantities = {quantity["key"]: quantity for quantity in table["quantities"]}
    known = [key for key in keys if any(group["values"][key] is not None for group in table["groups"])]
    columns = [column for key in known for column in (*before.get(key, ()), quantities[key]["title"])]
    rows = []
    for group in table["groups"]:
        counts = {"final": [str(group["runs"])], "seconds_to_target": [f"{group['reached']} of {group['runs']}"]}
        cells = [
            cell
            for key in known
            for cell in (*(counts[key] if key in before else ()), mean(group["values"][key], quantities[key]["scale"]))
        ]
        rows.append([group["label"], *cells])
    return TextTable(title=title, columns=["strategy", *columns], rows=rows)


def _pairs(table: Mapping[str, Any]) -> TextTable:
    quantities = {quantity["key"]: quantity for quantity in table["quantities"]}
    rows = [
        [
            f"{row['first']} − {row['second']}",
            quantities[row["quantity"]]["title"],
            str(row["pairs"]),
            number(row["mean"] / quantities[row["quantity"]]["scale"]),
            p_value(row["p"]),
            p_value(row["smallest_p"]),
        ]
        for row in table["paired"]
    ]
    columns = ["difference", "of", "pairs", "mean", "p", "smallest possible p"]
    return TextTable(title="Paired differences", columns=columns, rows=rows)


def _digits(value: float, figures: int = _FIGURES) -> int:
    """Decimals with which a value has this many significant figures."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(_MOST_DIGITS, max(0, figures - 1 - math.floor(math.log10(abs(value)))))


def _signed(text: str) -> str:
    return text.replace("-", "−")
