"""Pickles as data: containers, numbers and texts, and nothing that runs.

A pickle is a program that may call anything it names. Here it can name three things, which are replaced by stand-ins of
our own: NumPy's scalars, their dtype, and the encoding of their bytes. FedScale's capacity file is made of them.
"""

from __future__ import annotations

import contextlib
import pickle
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import psutil

from testbed.common.compressed import opened
from testbed.common.errors import UserError

_FORMATS = {
    "f8": "d",
    "f4": "f",
    "i8": "q",
    "i4": "i",
    "i2": "h",
    "i1": "b",
    "u8": "Q",
    "u4": "I",
    "u2": "H",
    "u1": "B",
}
_BYTES, _TIMES = 2**28, 256
"""Memory for what a pickle holds: so much, and so many times its size, which may be packed."""
_ORDERS = {"<": "<", ">": ">", "=": "<", "|": "<"}
MALFORMED = (
    pickle.UnpicklingError,
    EOFError,
    AttributeError,
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    MemoryError,
    OverflowError,
    ImportError,
    RecursionError,
    struct.error,
)


def load(path: Path) -> Any:
    """What the pickle holds; one that names anything else than numbers is refused before it can do harm."""
    with opened(path) as file, limited(_BYTES + _TIMES * path.stat().st_size):
        try:
            return Restricted(file, path).load()
        except MALFORMED as error:
            problem = str(error) or type(error).__name__
            raise UserError(f"{path}: is no pickle of numbers and texts: {problem}; get the file once more") from None


@contextlib.contextmanager
def limited(more: int) -> Iterator[None]:
    """So many bytes of memory more than now, at most: nine bytes of a pickle can ask for all there is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = psutil.Process().memory_info().vms + more
    for known in (soft, hard):
        limit = limit if known == resource.RLIM_INFINITY else min(limit, known)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Scalar:
    """Stands in for numpy.core.multiarray.scalar. No attributes: a pickle cannot change it."""

    __slots__ = ()

    def __call__(self, dtype: object, data: object) -> object:
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise TypeError("a scalar that is no number")
        (value,) = struct.unpack(dtype.order + dtype.format, data)
        return value


class _Dtype:
    __slots__ = ("format", "order")

    def __init__(self, code: str) -> None:
        self.format, self.order = _FORMATS[code], "<"

    def __setstate__(self, state: Any) -> None:
        self.order = _ORDERS[state[1]]


class _MakeDtype:
    """Stands in for numpy.dtype."""

    __slots__ = ()

    def __call__(self, code: str, *flags: object) -> _Dtype:
        return _Dtype(code)


class _Encode:
    """Stands in for _codecs.encode, by which protocol 2 writes bytes."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise ValueError(f"bytes in {encoding!r}")
        return text.encode("latin1")


_STAND_INS = {
    ("numpy.core.multiarray", "scalar"): _Scalar(),
    ("numpy._core.multiarray", "scalar"): _Scalar(),
    ("numpy", "dtype"): _MakeDtype(),
    ("_codecs", "encode"): _Encode(),
}


class Restricted(pickle.Unpickler):
    def __init__(self, file: Any, path: Path) -> None:
        super().__init__(file, encoding="latin1")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        found = _STAND_INS.get((module, name))
        if found is None:
            self._refuse(f"names {module}.{name}")
        return found

    def persistent_load(self, pid: object) -> NoReturn:
        self._refuse("refers to something outside of it")

    def _refuse(self, what: str) -> NoReturn:
        raise UserError(
            f"{self._path}: this pickle {what}, and loading that could run anything; only numbers, texts, lists and"
            " tables are taken: ask for JSON of the same shape"
        )
