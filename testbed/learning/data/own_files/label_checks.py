"""Checks of the labels of a user's own data, and their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError

_MOST_CLASSES = 10_000
_VALUES = "if the label is a number to predict, use task.target = 'value'"


def check_classes(where: str, names: tuple[str, ...], train: npt.NDArray[np.int64]) -> None:
    """Raise UserError if there is one class only, or nearly as many as samples. ``where``: file and column or array."""
    if len(names) == 1:
        raise UserError(
            f"{where}: all labels are {names[0]!r}; a classification needs two classes: name another label, or"
            f" {_VALUES}"
        )
    if len(names) > _MOST_CLASSES or (len(names) > 50 and len(names) > len(train) / 2):
        raise UserError(f"{where}: has {len(names):,} classes for {len(train):,} samples; {_VALUES}")


def check_test_classes(
    where: str, names: tuple[str, ...], train: npt.NDArray[np.int64], test: npt.NDArray[np.int64]
) -> None:
    """Raise UserError if the test part has a class of which there is no training sample."""
    unknown = np.setdiff1d(test, train)
    if len(unknown):
        raise UserError(
            f"{where}: the test part has the label {names[unknown[0]]!r}, of which there is no training sample: add"
            " some, or leave it out"
        )


def of_numbers(where: str, labels: npt.NDArray[Any]) -> list[str]:
    """Return number labels as texts. Raises UserError if they are not whole."""
    if labels.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(labels) | (labels != np.round(labels)))
        if len(bad):
            raise UserError(
                f"{where}: the label of sample {bad[0]} is {labels[bad[0]]}, which is no whole number; {_VALUES}"
            )
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    return [str(label) for label in labels.tolist()]
