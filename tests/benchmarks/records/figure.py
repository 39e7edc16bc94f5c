"""A figure: one measured value with its unit, and the aim that it should reach."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Value = float | str


class Sign(enum.StrEnum):
    """How a value must relate to its bound. It also says which direction is better."""

    AT_MOST = "≤"
    AT_LEAST = "≥"
    EQUAL = "="


@dataclass(frozen=True, slots=True)
class Aim:
    sign: Sign
    bound: Value

    def reached(self, value: Value) -> bool:
        if self.sign is Sign.EQUAL:
            return value == self.bound
        if isinstance(value, str) or isinstance(self.bound, str):
            raise TypeError(f"{value!r} {self.sign} {self.bound!r}: only numbers have an order")
        return value <= self.bound if self.sign is Sign.AT_MOST else value >= self.bound

    def __str__(self) -> str:
        return f"{self.sign} {show(self.bound)}"

    @staticmethod
    def read(text: str) -> Aim:
        """The aim that ``str`` wrote."""
        sign, _, bound = text.partition(" ")
        return Aim(Sign(sign), bound if Sign(sign) is Sign.EQUAL and not _is_number(bound) else float(bound))


def at_most(bound: float) -> Aim:
    return Aim(Sign.AT_MOST, bound)


def at_least(bound: float) -> Aim:
    return Aim(Sign.AT_LEAST, bound)


def equal(bound: Value) -> Aim:
    return Aim(Sign.EQUAL, bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``row`` and ``column`` place it in a table and are its name: they must not contain what changes between runs."""

    row: str
    column: str = "measured"
    value: Value | None
    """A number; a word such as a verdict; None if it could not be measured: ``note`` then says why."""
    unit: str = ""
    aim: Aim | None = None
    """None: no aim, only for comparison."""
    values: tuple[float, ...] = ()
    """Repetitions, if ``value`` is their median."""
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """None: there is no aim, or nothing was measured."""
        return None if self.aim is None or self.value is None else self.aim.reached(self.value)


def median(
    row: str, column: str, values: Sequence[float], *, unit: str = "", aim: Aim | None = None, note: str = ""
) -> Figure:
    """The figure of repeated measurements."""
    return Figure(
        row=row,
        column=column,
        value=statistics.median(values),
        unit=unit,
        aim=aim,
        values=tuple(values) if len(values) > 1 else (),
        note=note,
    )


def show(value: Value | None, unit: str = "") -> str:
    """Three significant digits, or all digits of a larger whole number."""
    if value is None:
        return "—"
    if isinstance(value, str):
        return value
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {unit}" if unit else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
