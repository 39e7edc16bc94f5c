"""Texts as numbers: labels, owners and categories. Their sorted names are the order of the numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_WHOLE = re.compile(r"-?[0-9]{1,15}")


class NumberedTexts:
    """Numbers texts in the order in which they come, and sorts them at the end."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, text: str) -> int:
        """Return the number of a text; a new one gets the next number."""
        return self._numbers.setdefault(text, len(self._numbers))

    def names(self) -> tuple[str, ...]:
        """Return the texts in order: whole numbers by their value, other texts by their characters."""
        return in_order(self._numbers)

    def places(self, numbers: Iterable[int]) -> npt.NDArray[np.int64]:
        """Return the place in :meth:`names` of each number."""
        place = {name: index for index, name in enumerate(self.names())}
        ranks = np.array([place[name] for name in self._numbers], np.int64)
        return ranks[np.asarray(numbers, np.int64)] if len(ranks) else np.zeros(0, np.int64)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names sorted: whole numbers by their value, other texts by their characters."""
    given = list(names)
    if all(_WHOLE.fullmatch(name) for name in given):
        return tuple(sorted(given, key=lambda name: (int(name), name)))
    return tuple(sorted(given))
