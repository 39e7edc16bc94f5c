"""The file format that rates and availability share: a table of what holds from each moment on, CSV or CSV.gz.

The last row has no value: it only marks the end, where the table begins anew.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Literal, TextIO

from testbed.common.errors import UserError

TIME = "t_s"
Table = tuple[list[float], list[float], float]
"""When each value begins to hold, the values, and the end."""


class BadValue(ValueError):
    """What is wrong with a value or a row, and what to do about it."""


def read(path: Path, column: str, unit: str, value: Callable[[str], float]) -> Table:
    """The table in ``path``. ``value`` makes a number of a cell, or raises BadValue; ``unit`` is told in errors."""
    number = 1
    times: list[float] = []
    values: list[float] = []
    end: float | None = None
    try:
        with _open(path, "rt") as file:
            _check_header(file.readline().strip(), column, unit)
            for number, line in enumerate(file, 2):  # noqa: B007  errors name it
                if line.isspace():
                    continue
                if end is not None:
                    raise BadValue(f"comes after a row without {column}; only the last has none: it marks the end")
                moment, text = _cells(line.strip(), column)
                _check_moment(moment, times)
                if text:
                    times.append(moment)
                    values.append(_value(value, text, column))
                else:
                    end = moment
        if end is None:
            raise BadValue(
                f"the last row must have a time and no {column}: it marks the end, where the table begins anew; add"
                " one, or get the file once more if it is cut off"
            )
        if not times:
            raise BadValue("is the end, and nothing comes before it; begin with the row '0,…'")
    except BadValue as error:
        raise UserError(f"{path}, line {number}: {error}") from None
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; name a file in it") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    return times, values, end


def write(path: Path, column: str, rows: Iterable[tuple[float, float]], end: float) -> None:
    """The inverse of :func:`read`."""
    with _open(path, "wt") as file:
        file.write(f"{TIME},{column}\n")
        file.writelines(f"{_plain(moment)},{_plain(value)}\n" for moment, value in rows)
        file.write(f"{_plain(end)},\n")


def check(times: list[float], count: int, period: float) -> None:
    """For tables that are made, and not read: raises ValueError."""
    if not times or len(times) != count or times[0] != 0.0:
        raise ValueError("a table has one value for each time, and the first time is 0")
    if not all(before < after for before, after in pairwise([*times, period])) or not math.isfinite(period):
        raise ValueError("the times of a table increase, and its end comes after the last of them")


def _open(path: Path, mode: Literal["rt", "wt"]) -> TextIO:
    return gzip.open(path, mode, encoding="utf-8") if path.suffix == ".gz" else path.open(mode, encoding="utf-8")


def _check_header(line: str, column: str, unit: str) -> None:
    wanted = f"{TIME},{column}"
    if [cell.strip() for cell in line.removeprefix("\ufeff").split(",")] == [TIME, column]:
        return
    if not line or _is_number(line.partition(",")[0]):
        raise BadValue(
            f"is {line!r:.60}, which is no header; put {wanted!r} in front ({unit}), or make a trace of another format"
            " one of ours with 'trace import'"
        )
    raise BadValue(f"the header is {line!r:.60}; it must be {wanted!r}: convert the columns ({unit}) and say so")


def _cells(line: str, column: str) -> tuple[float, str]:
    try:
        moment, text = line.split(",")
    except ValueError:
        problem = f"is {line!r:.60}; a row is a time and a value, with a comma between ({TIME},{column})"
        raise BadValue(problem) from None
    try:
        return float(moment), text.strip()
    except ValueError:
        raise BadValue(f"{TIME} is {moment.strip()!r:.60}; it must be a number of seconds") from None


def _check_moment(moment: float, times: list[float]) -> None:
    if times and times[-1] < moment < math.inf:
        return
    if not math.isfinite(moment):
        raise BadValue(f"{TIME} is {moment}; it must be finite")
    if times:
        raise BadValue(f"{TIME} is {moment:.12g}, after {times[-1]:.12g}; times must increase: sort the rows")
    if moment != 0.0:
        raise BadValue(f"{TIME} is {moment:g}; the first must be 0: subtract {moment:g} from all of them")


def _value(value: Callable[[str], float], text: str, column: str) -> float:
    try:
        return value(text)
    except BadValue as error:
        raise BadValue(f"{column} is {text!r:.60}; {error}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(number: float) -> str:
    return f"{number:.0f}" if number == round(number) and abs(number) < 1e15 else repr(float(number))
