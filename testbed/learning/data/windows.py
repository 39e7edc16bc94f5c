"""Windows of a text as samples: a fixed number of characters; the target is the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.learning.data.dataset import Indices, Subset


class Windows:
    """Inputs that are views into one text: windows need no memory except for their start positions."""

    def __init__(self, text: npt.NDArray[np.uint8], starts: Indices, length: int) -> None:
        self.text, self.starts, self.length = text, starts, length
        self._at = np.lib.stride_tricks.sliding_window_view(text, length)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, samples: Indices, /) -> npt.NDArray[np.uint8]:
        """Return the character codes, one row for each sample; only these rows are copied."""
        rows: npt.NDArray[np.uint8] = self._at[self.starts[samples]]
        return rows


def every(part: Subset, stride: int) -> Subset:
    """Return every ``stride``-th sample of each owner, from the owner's first on, so that each owner keeps one.

    Adjacent windows of a text differ by one character, so training on all of them is mostly redundant.
    The samples of an owner must be adjacent, as they are in texts.
    """
    if stride < 1:
        raise ValueError(f"a stride of {stride}; it must be at least 1")
    owners: npt.NDArray[Any] = np.zeros(len(part), np.int64) if part.owners is None else np.asarray(part.owners)
    begins = np.flatnonzero(np.diff(owners, prepend=owners[:1] - 1))
    rank = np.arange(len(owners)) - np.repeat(begins, np.diff(begins, append=len(owners)))
    kept = np.flatnonzero(rank % stride == 0)
    inputs = part.inputs
    chosen = Windows(inputs.text, inputs.starts[kept], inputs.length) if isinstance(inputs, Windows) else inputs[kept]
    return replace(
        part, inputs=chosen, targets=part.targets[kept], owners=None if part.owners is None else part.owners[kept]
    )
