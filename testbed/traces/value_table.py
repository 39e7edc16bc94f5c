"""The file format of rates and availability: a table of moments and values, CSV or CSV.gz.

A value is valid from its moment until the next. The last row has no value: it marks the end of the period.
"""

from __future__ import annotations

import gzip
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TextIO

from testbed.common.errors import UserError
from testbed.common.files.text_lines import numbered_lines
from testbed.common.parameters import LONGEST_PERIOD, SHORTEST_PERIOD

TIME = "t_s"
Table = tuple["array[float]", "array[float]", float]
"""The moments at which values begin, the values, and the end."""


class BadValue(ValueError):
    """A value or a row is wrong; the text says why, and the remedy."""


def read(path: Path, column: str, unit: str, value: Callable[[str], float]) -> Table:
    """Return the table in ``path``. Raises UserError.

    ``value`` converts a cell to a number, or raises BadValue. ``unit`` is for errors.
    """
    number = 1
    times, values = array("d"), array("d")
    end: float | None = None
    lines = numbered_lines(path)
    try:
        _check_header(next(lines, (1, ""))[1].strip(), column, unit)
        for number, line in lines:  # noqa: B007  errors name it
            if line.isspace():
                continue
            if end is not None:
                raise BadValue(f"follows a row without {column}; only the last row, which marks the end, has none")
            moment, text = _cells(line.strip(), column)
            _check_moment(moment, times)
            if text:
                times.append(moment)
                values.append(_value(value, text, column))
            else:
                end = moment
        if end is None:
            raise BadValue(
                f"the last row must have a time and no {column}: it marks the end of the period; add such a row, or get"
                " a new copy if the file is incomplete"
            )
        if not times:
            raise BadValue("marks the end, but there is no row before it; add a row '0,…'")
        if end < SHORTEST_PERIOD:
            raise BadValue(f"marks the end at {end:g}; a period has at least {SHORTEST_PERIOD:g} seconds")
    except BadValue as error:
        raise UserError(f"{path}, line {number}: {error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    return times, values, end


def write(path: Path, column: str, rows: Iterable[tuple[float, float]], end: float) -> None:
    """Write a table: the inverse of :func:`read`."""
    with _writing(path) as file:
        file.write(f"{TIME},{column}\n")
        file.writelines(f"{_plain(moment)},{_plain(value)}\n" for moment, value in rows)
        file.write(f"{_plain(end)},\n")


def check(times: Sequence[float], count: int, period: float) -> None:
    """Raise ValueError if the times of a table that was not read from a file are wrong."""
    if not times or len(times) != count or times[0] != 0.0:
        raise ValueError("a table must have one value for each time, and its first time must be 0")
    if not all(before < after for before, after in pairwise(chain(times, (period,)))):
        raise ValueError("the times of a table must increase, and its end must be after the last")
    if not SHORTEST_PERIOD <= period <= LONGEST_PERIOD:
        raise ValueError(f"a table must have at least {SHORTEST_PERIOD:g} and at most {LONGEST_PERIOD:g} seconds")


def _writing(path: Path) -> TextIO:
    return gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8")


def _check_header(line: str, column: str, unit: str) -> None:
    wanted = f"{TIME},{column}"
    if [cell.strip() for cell in line.removeprefix("\ufeff").split(",")] == [TIME, column]:
        return
    if not line or _is_number(line.partition(",")[0]):
        raise BadValue(
            f"is {line!r:.60}, which is not a header; add {wanted!r} ({unit}) as first line, or convert a trace of"
            " another format with 'trace import'"
        )
    raise BadValue(
        f"the header is {line!r:.60}; it must be {wanted!r}: convert the columns ({unit}) and change the header"
    )


def _cells(line: str, column: str) -> tuple[float, str]:
    try:
        moment, text = line.split(",")
    except ValueError:
        problem = f"is {line!r:.60}; a row is a time, a comma and a value ({TIME},{column})"
        raise BadValue(problem) from None
    try:
        return float(moment), text.strip()
    except ValueError:
        raise BadValue(f"{TIME} is {moment.strip()!r:.60}; it must be a number of seconds") from None


def _check_moment(moment: float, times: Sequence[float]) -> None:
    if times and times[-1] < moment <= LONGEST_PERIOD:
        return
    if not math.isfinite(moment):
        raise BadValue(f"{TIME} is {moment}; it must be finite")
    if moment > LONGEST_PERIOD:
        raise BadValue(f"{TIME} is {moment:g}; it must be at most {LONGEST_PERIOD:g} seconds: is it in another unit?")
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
