"""Converts torch data sets to arrays: any object with a length and items (input, target)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError
from testbed.learning.data.dataset import DataSet, Indices, Subset


def as_arrays(train: Any, test: Any) -> DataSet:
    """Return both data sets. Targets are read now; inputs when they are needed, so that transforms apply each time."""
    parts = [_part(dataset, purpose) for dataset, purpose in ((train, "training"), (test, "test"))]
    # labels of ±1 are possible with the task's own loss; others start at 0
    counted = all(part.has_classes and part.targets.min() >= 0 for part in parts)
    classes = max(int(part.targets.max()) for part in parts) + 1 if counted else 0
    return DataSet(train=parts[0], test=parts[1], classes=tuple(map(str, range(classes))))


def _part(dataset: Any, purpose: str) -> Subset:
    try:
        length = len(dataset)
    except TypeError:
        raise UserError(f"the {purpose} data has no length; a task needs data sets with __len__ and [i]") from None
    if length == 0:
        raise UserError(f"the {purpose} data is empty")
    tensors = getattr(dataset, "tensors", None)  # a TensorDataset has arrays already
    if tensors is not None and len(tensors) == 2:
        return Subset(inputs=_array(tensors[0]), targets=_array(tensors[1]))
    first, target = _item(dataset, 0, purpose)
    targets = [target]
    for number in range(1, length):
        inputs, target = _item(dataset, number, purpose)
        for own, other in ((inputs, first), (target, targets[0])):
            if own.shape != other.shape:
                shapes = f"has the shape {own.shape}, but item 0 has {other.shape}"
                raise UserError(f"item {number} of the {purpose} data {shapes}; all samples must have the same shape")
        targets.append(target)
    return Subset(inputs=_Items(dataset), targets=np.stack(targets))


def _item(dataset: Any, number: int, purpose: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    item = dataset[number]
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise UserError(f"item {number} of the {purpose} data is {type(item).__name__}; it must be (input, target)")
    inputs, target = _array(item[0]), _array(item[1])
    for what, array in (("input", inputs), ("target", target)):
        if not np.issubdtype(array.dtype, np.number):
            raise UserError(f"the {what} of item {number} of the {purpose} data is not an array of numbers")
        if not np.isfinite(array).all():
            raise UserError(f"the {what} of item {number} of the {purpose} data is not finite (NaN or infinite)")
    return inputs, target


class _Items:
    """The inputs of a data set, item by item."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, samples: Indices) -> npt.NDArray[Any]:
        return np.stack([_array(self._dataset[int(number)][0]) for number in samples])


def _array(value: Any) -> npt.NDArray[Any]:
    """Convert a tensor, which may require gradients, or any other numbers."""
    return np.asarray(value.detach() if hasattr(value, "detach") else value)
