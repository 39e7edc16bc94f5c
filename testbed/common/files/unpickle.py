"""Safe reading of pickles that contain only containers, numbers and strings.

A pickle is a program that may call any function that it names. This reader knows three names and replaces them by
harmless stand-ins: NumPy's scalars, their dtype, and the encoding of their bytes. FedScale's capacity file uses these.
"""

from __future__ import annotations

import contextlib
import pickle
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from testbed.common.errors import UserError
from testbed.common.files.compressed import opened

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
"""Memory limit for the content of a pickle: a fixed part, plus a multiple of its size, which may be compressed."""
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
    """Return the content of the pickle. Raises UserError before a pickle can call anything."""
    with opened(path) as file, limited(_BYTES + _TIMES * path.stat().st_size):
        try:
            return Restricted(file, path).load()
        except MALFORMED as error:
            problem = str(error) or type(error).__name__
            raise UserError(f"{path}: is not a pickle of numbers and strings: {problem}; get a new copy") from None


@contextlib.contextmanager
def limited(more: int) -> Iterator[None]:
    """Limit the memory to ``more`` bytes above the present use: a pickle of nine bytes can ask for all of it."""
    import psutil  # only here: the formats of traces are named in a help text

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
    """Replaces numpy.core.multiarray.scalar. It has no attributes, so a pickle cannot change it."""

    __slots__ = ()

    def __call__(self, dtype: object, data: object) -> object:
        if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
            raise TypeError("a scalar is not a number")
        (value,) = struct.unpack(dtype.order + dtype.format, data)
        return value


class _Dtype:
    __slots__ = ("format", "order")

    def __init__(self, code: str) -> None:
        self.format, self.order = _FORMATS[code], "<"

    def __setstate__(self, state: Any) -> None:
        self.order = _ORDERS[state[1]]


class _MakeDtype:
    """Replaces numpy.dtype."""

    __slots__ = ()

    def __call__(self, code: str, *flags: object) -> _Dtype:
        return _Dtype(code)


class _Encode:
    """Replaces _codecs.encode, which pickle protocol 2 uses for bytes."""

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
        self._refuse("refers to an external object")

    def _refuse(self, what: str) -> NoReturn:
        raise UserError(
            f"{self._path}: this pickle {what}, which could run any code; only numbers, strings, lists and tables are"
            " read: convert it to JSON of the same structure"
        )
