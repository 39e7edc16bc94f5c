"""``make bench-page``: writes the tables of docs/benchmarks.md from the history file.

The text between the tables is written by hand and kept. Each table stands between two marks with the name of its
benchmark. A row has the newest figure of each column. The newest line of the history decides which host the page shows,
and which code is the present one: a row with a figure of other code is marked as old, with its date and commit, and is
dropped when it is much older than the newest figure.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Iterable, Sequence

from tests.benchmarks.records import history
from tests.benchmarks.records.figure import show
from tests.benchmarks.records.history import Line
from tests.benchmarks.records.provenance import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
_MARKS = re.compile(r"(<!-- bench (?P<name>[\w-]+): begin[^>]*-->\n).*?(<!-- bench (?P=name): end -->)", re.DOTALL)
_HOST = "host"
_KEPT_DAYS = 90
_BUSY = 0.2
"""Pressure before a benchmark, from which on its figures are marked."""


class PageError(ValueError):
    """The page has no place for a benchmark."""


def write(page: str, lines: Sequence[Line]) -> str:
    """The page with new tables. Raises PageError if a benchmark of the history has no marks in it."""
    shown = _shown(lines)
    missing = {line.benchmark for line in shown} - set(places(page))
    if missing:
        name = min(missing)
        raise PageError(f"benchmarks.md has no place for {name}: add <!-- bench {name}: begin --> and … end -->")
    return _MARKS.sub(lambda found: found[1] + _content(found["name"], shown) + found[3], page)


def places(page: str) -> list[str]:
    """The names of the benchmarks that have marks."""
    return [found["name"] for found in _MARKS.finditer(page) if found["name"] != _HOST]


def _shown(lines: Sequence[Line]) -> list[Line]:
    """Lines of the present host that are not too old, in the order of their dates."""
    present = _present(lines)
    if present is None:
        return []
    oldest = datetime.datetime.fromisoformat(present.date) - datetime.timedelta(days=_KEPT_DAYS)
    same = history.of_host(lines, present.host)
    return [line for line in same if datetime.datetime.fromisoformat(line.date) >= oldest]


def _present(lines: Sequence[Line]) -> Line | None:
    """The line that says which code and host are the present ones."""
    return next((line for line in reversed(lines) if not line.checkout), None)


def _content(name: str, shown: Sequence[Line]) -> str:
    present = _present(shown)
    if present is None:
        return "Not measured yet.\n"
    if name == _HOST:
        return _host(present, shown)
    own = [line for line in shown if line.benchmark == name]
    rows: dict[str, dict[str, Line]] = {line.row: {} for line in own}  # in the order of their first appearance
    columns = list(dict.fromkeys(line.column for line in own))
    for line in history.newest(own).values():
        rows[line.row][line.column] = line
    if not rows:
        return "Not measured yet.\n"
    groups: dict[tuple[str, ...], list[str]] = {}
    for row, cells in rows.items():
        groups.setdefault(tuple(column for column in columns if column in cells), []).append(row)
    tables = (_table(these, {row: rows[row] for row in group}, present) for these, group in groups.items())
    return "\n".join([*tables, _commands(line for cells in rows.values() for line in cells.values())])


def _commands(lines: Iterable[Line]) -> str:
    found = dict.fromkeys(line.command for line in lines)
    return "Measured by: " + "; ".join(f"`{command}`" for command in found) + ".\n"


def _host(present: Line, shown: Sequence[Line]) -> str:
    known = history.newest(shown).values()
    missed = sum(line.reached is False for line in known)
    old = sum(line.code != present.code and not line.checkout for line in known)
    return (
        f"{present.cores} cores ({present.processor}), torch {present.torch}. {len(known)} figures, {missed} of them"
        f" miss their aim (bold), {old} are of older code. Last change: {present.date[:10]}.\n"
    )


def _table(columns: Sequence[str], rows: dict[str, dict[str, Line]], present: Line) -> str:
    shared = {column: _shared(cells[column] for cells in rows.values()) for column in columns}
    heads = [" ".join(filter(None, (column, *_head(shared[column])))) for column in columns]
    out = ["| | " + " | ".join(heads) + " | of |", "| --- " * (len(columns) + 2) + "|"]
    for row, cells in rows.items():
        texts = [_cell(cells[column], shared[column]) for column in columns]
        out.append(f"| {_text(row)} | " + " | ".join(texts) + f" | {_origin(cells.values(), present)} |")
    notes = [
        f"- {_text(row)}{_of(line)}: {_text(line.note)}" for row in rows for line in rows[row].values() if line.note
    ]
    return "\n".join([*out, *(["", *notes] if notes else []), ""])


def _shared(cells: Iterable[Line]) -> tuple[str, str]:
    """Unit and aim, where all cells of a column have the same."""
    units, aims = zip(*((cell.unit, cell.aim) for cell in cells), strict=True)
    return (units[0] if len(set(units)) == 1 else "", aims[0] if len(set(aims)) == 1 else "")


def _head(shared: tuple[str, str]) -> tuple[str, str]:
    unit, aim = shared
    return (f"in {unit}" if unit else "", f"({aim})" if aim else "")


def _cell(line: Line, shared: tuple[str, str]) -> str:
    unit, aim = shared
    text = show(line.value, "" if unit else line.unit)
    if line.reached is False:
        text = f"**{text}**"
    if line.values:
        text += f" ({show(min(line.values))} to {show(max(line.values))})"
    return text if aim or not line.aim else f"{text} ({line.aim})"


def _origin(cells: Iterable[Line], present: Line) -> str:
    """Date and commit of the oldest figure in a row."""
    line = min(cells, key=lambda each: each.date)
    words = [line.date[:10], f"{line.commit}{' with changes' if line.dirty else ''}"]
    if line.quick:
        words.append("quick")
    if (line.pressure[0] or 0.0) >= _BUSY:
        words.append("on a busy host")
    if line.code != present.code and not line.checkout:
        words.insert(0, "*old:*")
    return " ".join(words)


def _of(line: Line) -> str:
    return "" if line.column == "measured" else f", {line.column}"


def _text(text: str) -> str:
    return text.replace("|", "/")


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    try:
        new = write(text, history.read(history.FILE.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None
    PAGE.write_text(new, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {'written' if new != text else 'already up to date'}", file=sys.stderr)


if __name__ == "__main__":
    main()
