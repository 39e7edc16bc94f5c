"""Encodes messages as frames and decodes them: a msgpack header, and the vector (if any) as a raw frame of its own.

msgpack always copies when it unpacks, so tensors never go through it. Decoding is strict: schema number, kind, field
names, types and ranges, dtype and byte count are checked before any memory is interpreted. Frames that are not a valid
message raise :class:`BadMessage`, never anything else. This is the only file that imports msgpack; msgspec checks the
types of the fields.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgpack
import msgspec
import numpy as np

from testbed.wire.messages import Base, Message, Snapshot, Train, Update, Vector

SCHEMA = 1
MAX_HEADER = 1 << 20
_DTYPE = "<f4"
_KINDS: dict[str, type[Message]] = {cls.__name__: cls for cls in Message.__subclasses__()}
_VECTOR_FIELDS: dict[type[Message], str] = {Train: "model", Base: "model", Update: "delta", Snapshot: "model"}
"""Message type → the field that travels as a frame."""

Buffer: TypeAlias = bytes | memoryview


class BadMessage(ValueError):
    """A peer sent frames that are not a message; the text says what is wrong."""


def largest_frame(size: int) -> int:
    """The most bytes that the transport accepts in one frame: twice the model, or a header."""
    return max(2 * 4 * size, 2 * MAX_HEADER)


def encode(message: Message) -> list[Buffer]:
    """The frames of ``message``. The vector frame is a view: do not change the vector while it is being sent."""
    header = msgspec.structs.asdict(message)
    header["schema"], header["kind"] = SCHEMA, type(message).__name__
    if isinstance(message, Train):
        header["job"] = msgspec.to_builtins(message.job)
    field = _VECTOR_FIELDS.get(type(message))
    if field is None:
        return [msgpack.packb(header)]
    vector = header.pop(field)
    header["dtype"], header["size"] = _DTYPE, vector.size
    # a zero-length memoryview cannot be cast to bytes
    return [msgpack.packb(header), memoryview(vector).cast("B") if vector.size else b""]


def decode(frames: Sequence[Buffer], size: int) -> Message:
    """The message in ``frames``; a vector must have exactly ``size`` numbers. Raises :class:`BadMessage`."""
    if not 1 <= len(frames) <= 2:
        more = " or more" if frames else ""  # the sockets drop frames beyond the limit
        raise BadMessage(f"{len(frames)} frames{more}; a message has one or two")
    header = _header(frames[0])
    schema, name = header.pop("schema", None), header.pop("kind", None)
    if type(schema) is not int or schema != SCHEMA:  # True and 1.0 are equal to 1
        raise BadMessage(f"unknown schema; this side uses {SCHEMA}")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadMessage("unknown kind of message")
    field = _VECTOR_FIELDS.get(kind)
    if field is not None:
        if field in header:
            raise BadMessage(f"{field} must be a frame of its own")
        header[field] = _pop_vector(header, frames, size)
    elif len(frames) == 2:
        raise BadMessage(f"{name} carries no vector, but one was sent")
    try:
        return msgspec.convert(header, type=kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadMessage(f"{name}: {error}") from None


def decode_or_log(frames: Sequence[Buffer] | None, size: int) -> Message | None:
    """Decode frames in a process with a single peer; None if there are none, or if they are not a message.

    Invalid frames are noted in the log of the process: there is no other place to report them.
    """
    if frames is None:
        return None
    try:
        return decode(frames, size)
    except BadMessage as problem:
        print(f"ignored an invalid message: {problem}", file=sys.stderr)
        return None


def _header(frame: Buffer) -> dict[str, Any]:
    if len(frame) > MAX_HEADER:
        raise BadMessage(f"header of {len(frame)} bytes; at most {MAX_HEADER} are allowed")
    try:
        header = msgpack.unpackb(frame, raw=False, strict_map_key=True)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise BadMessage(f"the header is not msgpack: {type(error).__name__}") from None
    if not isinstance(header, dict):
        raise BadMessage("the header is not a map")
    return header


def _pop_vector(header: dict[str, Any], frames: Sequence[Buffer], size: int) -> Vector:
    dtype, declared = header.pop("dtype", None), header.pop("size", None)
    if len(frames) != 2:
        raise BadMessage("the vector frame is missing")
    if dtype != _DTYPE:
        raise BadMessage(f"dtype must be {_DTYPE}")
    if type(declared) is not int or declared != size:
        raise BadMessage(f"wrong shape: the model has {size} numbers")
    if len(frames[1]) != 4 * size:
        raise BadMessage(f"vector frame of {len(frames[1])} bytes; the header announces {4 * size}")
    vector = np.frombuffer(frames[1], dtype=np.float32)
    vector.flags.writeable = False  # ZeroMQ's buffers are writable; a message must not be
    return vector
