"""Test samples drawn from data that has none of its own, and the moments of the training samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError
from testbed.learning.data.dataset import Indices, Inputs

_PIECE = 1 << 20
"""Numbers that are converted at once."""


class ChosenSamples:
    """Some of the samples of an array, by their numbers there. The array is shared; only what is asked is copied."""

    def __init__(self, every: npt.NDArray[Any], numbers: Indices) -> None:
        self._every, self._numbers = every, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, samples: Indices, /) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = self._every[self._numbers[samples]]
        return found


def drawn(samples: int, share: float, where: str, seed: int) -> tuple[Indices, Indices]:
    """Return the numbers of training and test samples, each in ascending order. Raises UserError."""
    testing = round(samples * share)
    if testing < 1 or testing >= samples:
        raise UserError(
            f"{where}: has {samples} samples, of which a share of {share:g} cannot be held out for testing; add"
            " samples, or change task.test_share"
        )
    order = np.random.default_rng([seed, 0]).permutation(samples)
    return np.sort(order[testing:]), np.sort(order[:testing])


def moments(inputs: Inputs) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each feature, or of each channel of images. A constant has deviation 1."""
    first = inputs[np.zeros(1, np.int64)]
    channels, axes = first.shape[1], tuple(axis for axis in range(first.ndim) if axis != 1)
    count, step = len(inputs), max(1, _PIECE // max(1, first.size))
    shift = _as_float(inputs[np.zeros(1, np.int64)]).mean(axis=axes)  # else large values lose the digits of the squares
    total, squares = np.zeros(channels), np.zeros(channels)
    shape = (1, channels, *(1,) * (first.ndim - 2))
    for start in range(0, count, step):
        piece = _as_float(inputs[np.arange(start, min(start + step, count))]) - shift.reshape(shape)
        total += piece.sum(axis=axes)
        squares += np.square(piece).sum(axis=axes)
    numbers = count * math.prod(first.shape[2:])
    mean = total / numbers
    deviation = np.sqrt(np.maximum(squares / numbers - mean**2, 0.0))
    deviation[deviation < 1e-10 * np.maximum(1.0, np.abs(shift))] = 1.0
    return tuple((mean + shift).tolist()), tuple(deviation.tolist())


def _as_float(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return np.asarray(array, np.float64)
