"""The arrays of a Flower model as one vector of float32, and back.

Arrays of floating-point numbers (float16, float32, float64) are in the vector, in their order; clients get them back in
their own type. Arrays of whole numbers and truth values (``num_batches_tracked`` of batch normalisation) are not: each
device keeps those of its own last job, and the first job and the scores have the initial ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from testbed.learning.training.own_training import OwnTrainingError
from testbed.wire.messages import Vector

NamedArrays: TypeAlias = dict[str, npt.NDArray[Any]]
"""The arrays of a model, in order. Flower's old API has no names: they are "0", "1", and so on."""


class ArrayLayout:
    """Where each array of a model is in the vector."""

    def __init__(self, initial: NamedArrays) -> None:
        """Raises OwnTrainingError if an array has neither numbers nor truth values, or none has floats."""
        self._initial = {name: np.array(array) for name, array in initial.items()}
        for name, array in self._initial.items():
            if array.dtype.kind not in "fiub":
                raise OwnTrainingError(f"array {name} of the initial model has type {array.dtype}; use float32")
        self._shared = {name: array for name, array in self._initial.items() if array.dtype.kind == "f"}
        if not self._shared:
            raise OwnTrainingError(
                f"no array of the initial model has floating-point numbers ({_described(self._initial)});"
                " only such models can be averaged"
            )
        self.size = sum(array.size for array in self._shared.values())

    @property
    def local(self) -> NamedArrays:
        """The initial arrays that are not in the vector."""
        return {name: array for name, array in self._initial.items() if name not in self._shared}

    @property
    def wide(self) -> list[str]:
        """The names of the arrays that have more digits than the vector."""
        return [name for name, array in self._shared.items() if array.dtype.itemsize > 4]

    def initial(self) -> Vector:
        return self.vector(self._initial, "the ServerApp")

    def arrays(self, vector: Vector, local: Mapping[str, npt.NDArray[Any]]) -> NamedArrays:
        """Return the arrays of a model, in their order; ``local``: those that are not in the vector."""
        parts = self.parts(vector)
        return {
            name: parts[name].astype(array.dtype) if name in parts else local[name]
            for name, array in self._initial.items()
        }

    def parts(self, vector: Vector) -> NamedArrays:
        """Return the arrays that are in the vector, as parts of it."""
        ends = np.cumsum([array.size for array in self._shared.values()])[:-1]
        parts = np.split(vector, ends)
        return {
            name: part.reshape(array.shape) for (name, array), part in zip(self._shared.items(), parts, strict=True)
        }

    def vector(self, arrays: NamedArrays, who: str) -> Vector:
        """Return the vector of a model that ``who`` returned. Raises OwnTrainingError if its arrays are others."""
        if arrays.keys() != self._initial.keys():
            raise OwnTrainingError(
                f"{who} returned {len(arrays)} arrays ({_described(arrays)}); the initial model has"
                f" {len(self._initial)} ({_described(self._initial)})"
            )
        for name, array in self._initial.items():
            found = arrays[name]
            if found.shape != array.shape or (found.dtype.kind == "f") != (array.dtype.kind == "f"):
                raise OwnTrainingError(
                    f"{who} returned array {name} as {found.dtype} of shape {found.shape}; the initial model has"
                    f" {array.dtype} of shape {array.shape}"
                )
        with np.errstate(over="ignore"):  # an infinity is refused with the other numbers that are not finite
            return np.concatenate([arrays[name].astype(np.float32).ravel() for name in self._shared])


def _described(arrays: NamedArrays) -> str:
    shown = [f"{name}: {array.dtype}{list(array.shape)}" for name, array in list(arrays.items())[:3]]
    return ", ".join(shown) + (", …" if len(arrays) > len(shown) else "")
