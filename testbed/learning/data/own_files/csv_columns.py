"""The columns of a CSV: which of them are label, owner, numbers and categories, and the reading of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.common.errors import UserError, nearest

_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "-"))
"""What stands for a missing number. Of a text, only an empty cell is missing: NA may be a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvChoice:
    """What a task says about the columns."""

    label: str
    is_value: bool
    """Whether the label is a number to predict."""
    features: tuple[str, ...] = ()
    """Empty: all other columns."""
    one_hot: tuple[str, ...] = ()
    owner: str | None = None
    skip_missing: bool = False
    delimiter: str = ","


class Missing(Exception):
    """A cell of a row is empty; the text names its column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvColumns:
    """Places of the columns in a row."""

    names: tuple[str, ...]
    label: int
    owner: int | None
    features: tuple[int, ...]
    """In the order in which the network gets them."""
    numbers: tuple[int, ...]
    """Those of the features that are numbers, and the label if it is a value."""
    texts: tuple[int, ...]
    """Label, owner and categories."""

    def read_numbers(self, where: str, cells: Sequence[str]) -> list[float]:
        """Return the numbers of a row. Raises Missing, and UserError if a cell is text."""
        given = [cells[place] for place in self.numbers]
        try:
            if "_" in "".join(given):  # Python reads 1_000 as a number
                raise ValueError
            found = list(map(float, given))
        except ValueError:
            self._name_wrong(where, cells)
            raise
        if any(number != number for number in found):  # NaN
            self._name_wrong(where, cells)
        return found

    def read_texts(self, cells: Sequence[str]) -> list[str]:
        """Return the texts of a row. Raises Missing."""
        found = [cells[place].strip() for place in self.texts]
        if "" in found:
            raise Missing(self.names[self.texts[found.index("")]])
        return found

    def _name_wrong(self, where: str, cells: Sequence[str]) -> None:
        for place in self.numbers:
            cell, name = cells[place].strip(), self.names[place]
            if cell.lower() in _MISSING:
                raise Missing(name)
            try:
                if "_" in cell:
                    raise ValueError
                float(cell)
            except ValueError:
                remedy = (
                    "it must be a number to predict; for classes, leave task.target out"
                    if place == self.label
                    else "list the column in task.one_hot if it has categories, or only the others in task.features"
                )
                raise UserError(f"{where}: column {name!r} has the text {cell[:40]!r}; {remedy}") from None


def columns_of(path: Path, header: Sequence[str], choice: CsvChoice) -> CsvColumns:
    """Return where the columns of a choice are. Raises UserError for unknown, repeated and nameless columns."""
    names = tuple(name.strip() for name in header)
    if choice.label not in names and all(_is_number(name) for name in names):
        raise UserError(f"{path}, line 1: has only numbers; the first line must name the columns: add it")
    listed = (choice.label, *choice.features, *choice.one_hot, *([choice.owner] if choice.owner else []))
    for name in listed:
        if name not in names:
            other = next((each for each in ";\t|" if len(names) == 1 and each in names[0]), None)
            remedy = nearest(name, set(names)) if other is None else f"set task.delimiter = {other!r}"
            raise UserError(f"{path}, line 1: there is no column {name!r}; {remedy}")
    used = set(listed) if choice.features else set(names)
    for name in names:
        if names.count(name) > 1 and name in used:
            raise UserError(f"{path}, line 1: has {names.count(name)} columns {name!r}; give them different names")
    if "" in used:
        raise UserError(
            f"{path}, line 1: column {names.index('') + 1} has no name (row numbers that pandas wrote?): write the file"
            " without it (index=False), or list the others in task.features"
        )
    apart = {choice.label, choice.owner}
    features = choice.features or tuple(name for name in names if name not in apart)
    if apart & set(features):
        [both] = apart & set(features)
        raise UserError(f"{path}: column {both!r} is label or owner, and in task.features: leave it out of these")
    if not features:
        raise UserError(f"{path}, line 1: has no column besides label and owner; a sample needs at least one feature")
    categories = tuple(names.index(name) for name in features if name in choice.one_hot)
    if len(categories) != len(choice.one_hot):
        extra = next(name for name in choice.one_hot if name not in features)
        raise UserError(f"{path}: column {extra!r} is in task.one_hot, but it is no feature; leave it out of these")
    label = names.index(choice.label)
    owner = None if choice.owner is None else names.index(choice.owner)
    numbers = tuple(names.index(name) for name in features if name not in choice.one_hot)
    return CsvColumns(
        names=names,
        label=label,
        owner=owner,
        features=tuple(names.index(name) for name in features),
        numbers=(*numbers, label) if choice.is_value else numbers,
        texts=(
            *(() if choice.is_value else (label,)),
            *(() if owner is None else (owner,)),
            *categories,
        ),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
