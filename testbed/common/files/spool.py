"""Long columns of numbers and long tables, in bounded memory: the first rows in memory, then in a temporary file.

The results of a run need every delay (for exact quantiles) and every version (for its table), and a run may last for
days. The file has no name and ends with the process. If it cannot be written, the rows stay in memory. It is read with
``pread``, so that a fork of this process may read it at the same time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from os import pread, pwrite
from typing import Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.common.stats import rank

Row = TypeVar("Row", bound=msgspec.Struct)
Block = npt.NDArray[np.float64]

_NUMBERS_IN_MEMORY = 1 << 14
_ROWS_IN_MEMORY = 512
_DIGIT_BITS = 16
_DIGITS = 64 // _DIGIT_BITS


class _File:
    """A temporary file that only grows. It is made with its first bytes."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._places: list[tuple[int, int]] = []
        """Offset and length of each piece."""

    def append(self, piece: bytes) -> bool:
        """Write a piece. Return False if that fails."""
        offset = sum(self._places[-1]) if self._places else 0
        with contextlib.suppress(OSError):  # no space, or no folder for temporary files
            self._file = self._opened() if self._file is None else self._file
            if pwrite(self._file, piece, offset) == len(piece):
                self._places.append((offset, len(piece)))
                return True
        return False

    def _opened(self) -> int:
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
        weakref.finalize(self, os.close, file)
        return file

    def pieces(self) -> Iterator[bytes]:
        for offset, size in self._places:
            assert self._file is not None
            yield pread(self._file, size, offset)


class Spool:
    """Rows of ``width`` numbers, in the order in which they were added."""

    def __init__(self, width: int = 1, rows: Iterable[Sequence[float]] = ()) -> None:
        self._width, self._file = width, _File()
        self._last = array("d")
        self._limit = _NUMBERS_IN_MEMORY
        self._stored = 0
        """Numbers in the file."""
        for row in rows:
            self.add(*row)

    def add(self, *row: float) -> None:
        """Add a row, or several one after another."""
        last = self._last
        last.extend(row)
        if len(last) >= self._limit:
            self._flush()

    def _flush(self) -> None:
        if self._file.append(self._last.tobytes()):
            self._stored += len(self._last)
            del self._last[:]
        else:
            self._limit = 2 * len(self._last)

    def __len__(self) -> int:
        return (self._stored + len(self._last)) // self._width

    def __iter__(self) -> Iterator[tuple[float, ...]]:
        for block in self.blocks():
            yield from map(tuple, block.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spool):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def blocks(self) -> Iterator[Block]:
        """All rows, as one array of rows after another. Each holds a limited number of them."""
        for piece in self._file.pieces():
            yield np.frombuffer(piece).reshape(-1, self._width)
        if self._last:
            yield np.array(self._last).reshape(-1, self._width)

    def quantiles(self, *shares: float, column: int = 0, zeros: int = 0) -> list[float]:
        """Quantiles of a column by nearest rank, as ``stats.quantile``; with so many further zeros.

        With further zeros, no value may be negative. Raises ValueError if there are no values.
        """
        count = len(self) + zeros
        if not count:
            raise ValueError("no values")
        places = [rank(count, share) - zeros for share in shares]
        if not self._stored:
            values = np.sort(np.array(self._last)[column :: self._width])
            return [0.0 if place < 0 else float(values[place]) for place in places]
        return [0.0 if place < 0 else self._value_at(place, column) for place in places]

    def _value_at(self, place: int, column: int) -> float:
        """The value at a place in ascending order, digit by digit: the memory does not depend on the number of values.

        The bits of floats are made to sort as unsigned integers do. Each pass over the values counts the next 16 bits
        of those that begin with the bits that are known.
        """
        known = np.uint64(0)
        for digit in range(_DIGITS):
            shift = np.uint64(64 - _DIGIT_BITS * (digit + 1))
            counts = np.zeros(1 << _DIGIT_BITS, np.int64)
            for block in self.blocks():
                keys = _keys(block[:, column]) >> shift
                same = keys[keys >> np.uint64(_DIGIT_BITS) == known]
                counts += np.bincount((same & np.uint64(0xFFFF)).astype(np.int64), minlength=len(counts))
            sums = np.cumsum(counts)
            found = int(np.searchsorted(sums, place, side="right"))
            place -= int(sums[found - 1]) if found else 0
            known = (known << np.uint64(_DIGIT_BITS)) | np.uint64(found)
        return _value(known)


_SIGN = np.uint64(1 << 63)


def _keys(values: Block) -> npt.NDArray[np.uint64]:
    """Unsigned integers in the order of the values. Zero has one sign."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _value(key: np.uint64) -> float:
    bits = key & ~_SIGN if key & _SIGN else ~key
    return float(np.array([bits], np.uint64).view(np.float64)[0])


class RowSpool(Generic[Row]):
    """Rows of a table, in the order in which they were added. They may be read any number of times."""

    def __init__(self, kind: type[Row], rows: Iterable[Row] = ()) -> None:
        self._kind, self._file = kind, _File()
        self._rows: list[Row] = []
        self._limit = _ROWS_IN_MEMORY
        self._count = 0
        self.last: Row | None = None
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        self._rows.append(row)
        self._count += 1
        self.last = row
        if len(self._rows) >= self._limit:
            self._flush()

    def _flush(self) -> None:
        # as plain values: an integer in a column of floats stays one
        if self._file.append(msgspec.json.encode(list(map(msgspec.structs.astuple, self._rows)))):
            self._rows = []
        else:
            self._limit = 2 * len(self._rows)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        names = self._kind.__struct_fields__
        for piece in self._file.pieces():
            for values in msgspec.json.decode(piece):
                yield self._kind(**dict(zip(names, values, strict=True)))
        yield from self._rows
