"""Refuses data that cannot be used for training, before any process starts."""

from __future__ import annotations

import numpy as np

from testbed.common.errors import UserError
from testbed.learning.data.dataset import DataSet, Subset


def check(data: DataSet) -> None:
    """Raise UserError if the data is empty, inconsistent or not finite."""
    for part, purpose in ((data.train, "training"), (data.test, "test")):
        _check_part(part, f"the {purpose} data")
        if data.classes and part.has_classes:
            _check_classes(part, len(data.classes), f"the {purpose} data")


def _check_part(part: Subset, what: str) -> None:
    if len(part) == 0:
        raise UserError(f"{what} is empty")
    if len(part.inputs) != len(part):
        raise UserError(f"{what} has {len(part.inputs)} inputs and {len(part)} targets; each sample needs both")
    if part.owners is not None and len(part.owners) != len(part):
        raise UserError(f"{what} has {len(part)} samples and {len(part.owners)} owners; each sample needs one")
    for name, array in (("input", part.inputs), ("target", part.targets)):
        if isinstance(array, np.ndarray) and np.issubdtype(array.dtype, np.floating):
            bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
            if len(bad):
                more = f", and of {len(bad) - 1} more" if len(bad) > 1 else ""
                raise UserError(f"{what}: the {name} of sample {bad[0]}{more} is not finite (NaN or infinite)")


def _check_classes(part: Subset, classes: int, what: str) -> None:
    labels = part.targets
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        raise UserError(f"{what}: the label of sample {bad[0]} is {labels[bad[0]]}; it must be in 0 to {classes - 1}")
