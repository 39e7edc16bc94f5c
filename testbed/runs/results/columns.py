"""A table of a run's results, as columns for pandas, polars and plots, and as typed rows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from testbed.common.errors import UserError
from testbed.runs.results.table_rows import MetricRow

if TYPE_CHECKING:
    import pandas

Row = TypeVar("Row", bound=msgspec.Struct)
_SCORES = "scores"
_PREFIX = "metric_"
_USUAL_METRICS = ("accuracy", "loss")
_MOST_SHOWN = 20


class Columns(dict[str, list[Any]], Generic[Row]):
    """Column name → its values, one for each row; an unknown value is None.

    A dictionary, so that ``pandas.DataFrame(columns)`` and ``polars.DataFrame(columns)`` take it; ``rows`` are the same
    values as structs. Notebooks show it as a table.
    """

    def __init__(self, kind: type[Row], rows: Iterable[Row]) -> None:
        self.rows: Sequence[Row] = tuple(rows)
        plain = [as_cells(row) for row in self.rows]
        names = dict.fromkeys([*column_names(kind), *(name for cells in plain for name in cells)])
        super().__init__({name: [cells.get(name) for cells in plain] for name in names})

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas DataFrame. Raises UserError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise UserError(
                "to_pandas() needs pandas, which is not installed; install it: pip install pandas"
            ) from None
        return pandas.DataFrame(dict(self))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self)
        body = "".join(
            f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in values)}</tr>"
            for values in list(zip(*self.values(), strict=True))[:_MOST_SHOWN]
        )
        more = len(self.rows) - _MOST_SHOWN
        rest = f"<p>… and {more} more rows</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def column_names(kind: type[msgspec.Struct]) -> list[str]:
    """The columns that a table of such rows always has."""
    names = [name for name in kind.__struct_fields__ if name != _SCORES]
    return [*names, *_USUAL_METRICS] if kind is MetricRow else names


def as_cells(row: msgspec.Struct) -> dict[str, object]:
    """The cells of a row by column. A metric has a column; one with the name of another column gets a prefix."""
    cells = {name: getattr(row, name) for name in row.__struct_fields__ if name != _SCORES}
    scores = row.scores if isinstance(row, MetricRow) else {}
    return cells | {f"{_PREFIX}{name}" if name in cells else name: value for name, value in scores.items()}


def from_cells(kind: type[Row], cells: dict[str, str]) -> Row:
    """The row in the cells of a CSV file. Raises msgspec.ValidationError if they are not such a row."""
    fields = set(kind.__struct_fields__) - {_SCORES}
    known: dict[str, object] = {name: text or None for name, text in cells.items() if name in fields}
    if kind is MetricRow:
        known[_SCORES] = {
            name.removeprefix(_PREFIX) if name.removeprefix(_PREFIX) in known else name: text
            for name, text in cells.items()
            if name not in known and text
        }
    return msgspec.convert(known, kind, strict=False)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))
