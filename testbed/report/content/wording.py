"""Formatting of numbers for readers. An unknown value is a dash, never 0."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

UNKNOWN = "–"
_SIZES = ("B", "kB", "MB", "GB", "TB")
_JOULES = ("J", "kJ", "MJ", "GJ")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float | None) -> str:
    """Three significant figures, or all digits of the integer part."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if 999.5 <= abs(value) < 1e9 or value == int(value):
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.3g}"


def share(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return "< 1 %" if 0 < value < 0.01 else f"{100 * value:.0f} %"


def seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} s"


def joules(value: float | None) -> str:
    return _scaled(value, _JOULES)


def size(value: float | None) -> str:
    return _scaled(value, _SIZES)


def printable(text: str) -> str:
    """The text without characters that XML forbids: a name may contain any."""
    return _UNPRINTABLE.sub("\ufffd", text)


def plural(count: int, noun: str) -> str:
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def _scaled(value: float | None, units: Sequence[str]) -> str:
    if value is None:
        return UNKNOWN
    for unit in units[:-1]:
        if abs(value) < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} {units[-1]}"
