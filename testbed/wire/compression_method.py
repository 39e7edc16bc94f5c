"""The methods that compress updates: their names in a profile, and the bytes that a compressed update has.

A method is one of NAMES, or ``topk:F`` with a share F. Each number of bytes follows from the method and the size of the
model alone, so the planner and the radio cell know it before an update is made. The bytes themselves are made in
``compression``; this file imports no numpy, because profiles are loaded without it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

NONE = "none"
NAMES = (NONE, "float16", "int8")
TOPK = "topk"
TOPK_PATTERN = r"topk:(0\.[0-9]{1,18}|[1-9](\.[0-9]{1,18})?e-[0-9]{1,2}|1(\.0{1,18})?)"
"""The length of F is limited: peers send it, too."""
FORMS = "none, float16, int8, or topk:F with 0 < F ≤ 1, such as topk:0.01"
BLOCK = 1024
"""Numbers that share one scale under int8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionMethod:
    """A method by its name; ``share`` is F of topk."""

    name: str
    share: Fraction = Fraction(1)

    def kept(self, size: int) -> int:
        """k of topk: how many of ``size`` numbers are sent. F is exact here: 0.07 of 100 numbers are 7, not 8."""
        return min(size, max(1, -(-size * self.share.numerator // self.share.denominator)))

    def nbytes(self, size: int) -> int:
        """Bytes of an update of ``size`` numbers, without the header of its message."""
        match self.name:
            case "float16":
                return 2 * size
            case "int8":
                return size + 4 * blocks(size)
            case "topk":
                return 8 * self.kept(size)
            case _:
                return 4 * size


def blocks(size: int) -> int:
    """Number of blocks of ``size`` numbers; the last one may be shorter."""
    return -(-size // BLOCK)


@functools.lru_cache(maxsize=64)
def method_of(text: str) -> CompressionMethod:
    """Return the method that a profile or a message names. Raises ValueError if there is none of this name."""
    if text in NAMES:
        return CompressionMethod(name=text)
    if re.fullmatch(TOPK_PATTERN, text):
        share = Fraction(text.removeprefix(f"{TOPK}:"))
        if 0 < share <= 1:
            return CompressionMethod(name=TOPK, share=share)
    raise ValueError(f"it must be {FORMS}")
