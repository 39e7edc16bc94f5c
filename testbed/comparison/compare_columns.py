"""A comparison as plain columns: for CSV files, and for pandas and polars, whose DataFrame takes them as they are."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from testbed.comparison.interval import Interval
from testbed.comparison.pairing import PairedDifference
from testbed.comparison.quantities import ComparedGroup, ComparisonRow, Quantity

ColumnTable = dict[str, list[str | float | None]]
"""Name of a column → its values, one for each row. Values are in the units of Quantity.unit, without its scale."""


def of_groups(groups: Sequence[ComparedGroup], keys: Sequence[str]) -> ColumnTable:
    """One row for each group: the means of these quantities, and half of the 95 % interval of each."""
    columns: ColumnTable = {"group": [group.label for group in groups]}
    columns |= _fields(groups, ("strategy", "runs", "reached"))
    for key in keys:
        found = [group.values[key] for group in groups]
        columns[key] = [None if each is None else each.mean for each in found]
        columns[f"{key}_half"] = [None if each is None else each.half for each in found]
    return columns


def of_intervals(groups: Sequence[ComparedGroup], quantities: Sequence[Quantity]) -> ColumnTable:
    """One row for each quantity of each group that has it: compare.csv."""
    known = [
        (group, quantity, found)
        for group in groups
        for quantity in quantities
        if (found := group.values[quantity.key]) is not None
    ]
    return {
        "group": [group.label for group, _, _ in known],
        "strategy": [group.strategy for group, _, _ in known],
        "quantity": [quantity.key for _, quantity, _ in known],
        "unit": [quantity.unit for _, quantity, _ in known],
        **_fields([found for _, _, found in known], Interval.__struct_fields__),
    }


def of_pairs(paired: Sequence[PairedDifference], quantities: Sequence[Quantity]) -> ColumnTable:
    """One row for each quantity of every two groups, the first minus the second: paired.csv."""
    units = {quantity.key: quantity.unit for quantity in quantities}
    return {
        **_fields(paired, ("first", "second", "quantity")),
        "unit": [units[row.quantity] for row in paired],
        **_fields(paired, ("pairs", "by", "mean", "p", "smallest_p")),
    }


def of_runs(rows: Sequence[ComparisonRow]) -> ColumnTable:
    """One row for each run: runs.csv."""
    return _fields(rows, ComparisonRow.__struct_fields__)


def _fields(structs: Sequence[msgspec.Struct], names: Sequence[str]) -> ColumnTable:
    """These fields of the structs; the name of a field is the name of its column."""
    return {name: [getattr(struct, name) for struct in structs] for name in names}
