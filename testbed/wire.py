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
    kind = type(message)
    header: dict[str, Any] = {"schema": SCHEMA, "kind": kind.__name__}
    frames: list[Buffer] = [b""]
    for name, form in _FORMS[kind.__name__].fields.items():
        value = getattr(message, name)
        if form is _vector:
            header["dtype"] = _DTYPE
            header["size"] = value.size
            # a zero-length memoryview cannot be cast to bytes
            frames.append(memoryview(value).cast("B") if value.size else b"")
        elif form is _job:
            header[name] = {field.name: getattr(value, field.name) for field in dataclasses.fields(Job)}
        else:
            header[name] = value
    frames[0] = msgpack.packb(header)
    return frames


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
    if header.pop("schema", None) != SCHEMA:
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
    """How the fields of one message type are checked."""

    def __init__(self, cls: type[Any]) -> None:
        hints = typing.get_type_hints(cls)
        self.cls = cls
        self.fields: dict[str, Callable[[str, Any], Any]] = {
            field.name: _CHECKS[hints[field.name]] for field in dataclasses.fields(cls)
        }
        self.vector = next((name for name, check in self.fields.items() if check is _vector), None)
        self.required = len(self.fields) - (self.vector is not None)

    def make(self, header: dict[str, Any], vector: Vector | None) -> Any:
        if len(header) != self.required:
            raise BadMessage(f"{self.cls.__name__} has {self.required} header fields, not {len(header)}")
        values: dict[str, Any] = {}
        for name, check in self.fields.items():
            if name == self.vector:
                values[name] = vector
            elif name in header:
                values[name] = check(name, header[name])
            else:
                raise BadMessage(f"{self.cls.__name__} has no {name}")
        return self.cls(**values)


def _int(name: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise BadMessage(f"{name} must be a whole number, not negative")
    return value


def _float(name: str, value: Any) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise BadMessage(f"{name} must be a finite float")
    return value


def _text(name: str, value: Any) -> str:
    if type(value) is not str or len(value) > MAX_TEXT:
        raise BadMessage(f"{name} must be a text of at most {MAX_TEXT} characters")
    return value


def _ints(name: str, value: Any) -> tuple[int, ...]:
    if type(value) is not list:
        raise BadMessage(f"{name} must be a list")
    return tuple(_int(name, item) for item in value)


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


def _vector(name: str, value: Any) -> Any:
    raise BadMessage(f"{name} must come as a frame")


_CHECKS: dict[Any, Callable[[str, Any], Any]] = {
    int: _int,
    float: _float,
    str: _text,
    tuple[int, ...]: _ints,
    dict[str, float]: _floats,
    tuple[dict[str, Any], ...]: _tables,
    Job: _job,
    Vector: _vector,
}
_JOB = _Form(Job)
_FORMS = {cls.__name__: _Form(cls) for cls in typing.get_args(Message)}
