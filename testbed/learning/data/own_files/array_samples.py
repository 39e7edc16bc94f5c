"""Arrays of samples: shape, type and finite numbers are checked, and images get their channels in front."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.common.errors import UserError

_CHANNELS = (1, 3, 4)
_PIECE = 4_096
"""Samples that are checked at once: the check of a whole array would need an array of that size."""


def as_inputs(where: str, array: npt.NDArray[Any], channels: str) -> npt.NDArray[Any]:
    """Return inputs as uint8 or float32: samples × features, or samples × channels × height × width.

    ``channels``: whether an image has them "first" or "last"; "auto": last if only that is possible.
    """
    if array.ndim not in (2, 3, 4):
        wanted = "samples × features, samples × height × width, or that with channels"
        raise UserError(f"{where}: has the shape {array.shape}; it must be {wanted}")
    if 0 in array.shape:
        raise UserError(f"{where}: has the shape {array.shape}, which has no samples, or empty ones; add some")
    if array.dtype.kind not in "biuf":
        raise UserError(f"{where}: contains {array.dtype}; samples must be numbers")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and (channels == "last" or (channels == "auto" and _are_last(array.shape))):
        array = np.moveaxis(array, 3, 1)
    if array.dtype == np.bool_ or array.dtype == np.uint8:
        return np.ascontiguousarray(array, np.uint8)
    return _finite(where, array)


def _are_last(shape: tuple[int, ...]) -> bool:
    return shape[3] in _CHANNELS and shape[1] not in _CHANNELS


def _finite(where: str, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    made = np.empty(array.shape, np.float32)
    for start in range(0, len(array), _PIECE):
        piece = made[start : start + _PIECE]
        with np.errstate(over="ignore"):
            piece[...] = array[start : start + _PIECE]
        bad = np.flatnonzero(~np.isfinite(piece.reshape(len(piece), -1)).all(axis=1))
        if len(bad):
            problem = "is not finite (NaN, infinite, or above 3e38); fill it in, or leave it out"
            raise UserError(f"{where}: sample {start + bad[0]} {problem}")
    return made


def as_values(where: str, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return numbers to predict as float32."""
    if array.dtype.kind not in "biuf":
        raise UserError(f"{where}: contains {array.dtype}; values to predict must be numbers")
    return _finite(where, array)
