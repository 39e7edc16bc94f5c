"""Messages to frames and back: a msgpack header, and the vector (if any) as a raw frame of its own.

msgpack always copies on unpacking, so tensors never go through it. Decoding is strict: schema number, kind, field
names, field types, dtype and byte count are checked before any memory is interpreted, and whatever does not fit
raises :class:`BadMessage`, never anything else. The only file that imports msgpack.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgpack
import numpy as np

from testbed.messages import Job, Message, Vector

SCHEMA = 1
MAX_HEADER = 1 << 20
MAX_TEXT = 1000
_DTYPE = "<f4"

Buffer: TypeAlias = bytes | memoryview


class BadMessage(ValueError):
    """A peer sent frames that are not a message; the text says what is wrong with them."""


def largest_frame(size: int) -> int:
    """Bytes that a peer may send in one frame before the transport cuts it off: twice the model, or a header."""
    return max(2 * 4 * size, 2 * MAX_HEADER)


def encode(message: Message) -> list[Buffer]:
    """Frames of ``message``. The vector frame is a view: do not change the vector while it is being sent."""
    form = _FORMS[type(message).__name__]
    header: dict[str, Any] = {"schema": SCHEMA, "kind": form.kind}
    for name in form.plain:
        header[name] = getattr(message, name)
    for name in form.jobs:
        job = header[name]
        header[name] = {field: getattr(job, field) for field in _JOB.plain}
    if form.vector is None:
        return [msgpack.packb(header)]
    vector = getattr(message, form.vector)
    header["dtype"], header["size"] = _DTYPE, vector.size
    # a zero-length memoryview cannot be cast to bytes
    return [msgpack.packb(header), memoryview(vector).cast("B") if vector.size else b""]


def decode(frames: Sequence[Buffer], size: int) -> Message:
    """The message in ``frames``; a vector must have exactly ``size`` numbers. Raises :class:`BadMessage`."""
    if not 1 <= len(frames) <= 2:
        raise BadMessage(f"{len(frames)} frames; a message has one or two")
    if len(frames[0]) > MAX_HEADER:
        raise BadMessage(f"header of {len(frames[0])} bytes; at most {MAX_HEADER} are allowed")
    try:
        header = msgpack.unpackb(frames[0], raw=False, strict_map_key=True)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise BadMessage(f"the header is not msgpack: {type(error).__name__}") from None
    if not isinstance(header, dict):
        raise BadMessage("the header is not a map")
    schema = header.pop("schema", None)
    if type(schema) is not int or schema != SCHEMA:  # True and 1.0 are equal to 1
        raise BadMessage(f"unknown schema; this end speaks {SCHEMA}")
    kind = header.pop("kind", None)
    form = _FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise BadMessage("unknown kind of message")
    if form.vector:
        vector: Vector | None = _take_vector(header, frames, size)
    elif len(frames) == 2:
        raise BadMessage(f"{kind} carries no vector, but one was sent")
    else:
        vector = None
    message: Message = form.make(header, vector)
    return message


def _take_vector(header: dict[str, Any], frames: Sequence[Buffer], size: int) -> Vector:
    dtype, declared = header.pop("dtype", None), header.pop("size", None)
    if len(frames) != 2:
        raise BadMessage("the vector frame is missing")
    if dtype != _DTYPE:
        raise BadMessage(f"dtype must be {_DTYPE}")
    if type(declared) is not int or declared != size:
        raise BadMessage(f"wrong shape: the model has {size} numbers")
    if len(frames[1]) != 4 * size:
        raise BadMessage(f"vector frame of {len(frames[1])} bytes; {4 * size} were announced")
    return np.frombuffer(frames[1], dtype=np.float32)


class _Form:
    """How the fields of one message type are checked. Numbers are checked in line: most fields are numbers."""

    def __init__(self, cls: type[Any]) -> None:
        hints = typing.get_type_hints(cls)
        types = {field.name: hints[field.name] for field in dataclasses.fields(cls)}
        self.cls, self.kind = cls, cls.__name__
        self.vector = next((name for name, kind in types.items() if kind == Vector), None)
        self.plain = tuple(name for name in types if name != self.vector)
        self.jobs = tuple(name for name, kind in types.items() if kind is Job)
        self._ints = tuple(name for name, kind in types.items() if kind is int)
        self._floats = tuple(name for name, kind in types.items() if kind is float)
        self._others = tuple((name, _CHECKS[kind]) for name, kind in types.items() if kind in _CHECKS)

    def make(self, values: dict[str, Any], vector: Vector | None) -> Any:
        """The message with these header fields; ``values`` is used up."""
        if len(values) != len(self.plain):
            raise BadMessage(f"{self.kind} has {len(self.plain)} header fields, not {len(values)}")
        try:
            for name in self._ints:
                value = values[name]
                if type(value) is not int or value < 0:
                    raise BadMessage(f"{name} must be a whole number, not negative")
            for name in self._floats:
                _float(name, values[name])
            for name, check in self._others:
                values[name] = check(name, values[name])
        except KeyError as missing:
            raise BadMessage(f"{self.kind} has no {missing.args[0]}") from None
        if self.vector is not None:
            values[self.vector] = vector
        return self.cls(**values)


# ---- the other kinds of fields


def _float(name: str, value: Any) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise BadMessage(f"{name} must be a finite float")
    return value


def _float_or_none(name: str, value: Any) -> float | None:
    return None if value is None else _float(name, value)


def _text(name: str, value: Any) -> str:
    if type(value) is not str or len(value) > MAX_TEXT:
        raise BadMessage(f"{name} must be a text of at most {MAX_TEXT} characters")
    return value


def _ints(name: str, value: Any) -> tuple[int, ...]:
    if type(value) is not list or any(type(item) is not int or item < 0 for item in value):
        raise BadMessage(f"{name} must be a list of whole numbers, not negative")
    return tuple(value)


def _floats(name: str, value: Any) -> dict[str, float]:
    if type(value) is not dict:
        raise BadMessage(f"{name} must be a map")
    return {_text(name, key): _float(name, item) for key, item in value.items()}


def _tables(name: str, value: Any) -> tuple[dict[str, Any], ...]:
    if type(value) is not list or any(type(item) is not dict for item in value):
        raise BadMessage(f"{name} must be a list of maps")
    return tuple(value)


def _job(name: str, value: Any) -> Job:
    if type(value) is not dict:
        raise BadMessage(f"{name} must be a map")
    return typing.cast("Job", _JOB.make(value, None))


_CHECKS: dict[Any, Callable[[str, Any], Any]] = {
    float | None: _float_or_none,
    str: _text,
    tuple[int, ...]: _ints,
    dict[str, float]: _floats,
    tuple[dict[str, Any], ...]: _tables,
    Job: _job,
}
_JOB = _Form(Job)
_FORMS = {cls.__name__: _Form(cls) for cls in typing.get_args(Message)}
