"""Messages to frames and back: a msgpack header, and the vector (if any) as a raw frame of its own.

msgpack always copies on unpacking, so tensors never go through it. Decoding is strict: schema number, kind, field
names, types and ranges, dtype and byte count are checked before any memory is interpreted, and whatever does not fit
raises :class:`BadMessage`, never anything else. The only file that imports msgpack; the types of the fields are
enforced by msgspec.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgpack
import msgspec
import numpy as np

from testbed.wire.messages import Message, Vector

SCHEMA = 1
MAX_HEADER = 1 << 20
_DTYPE = "<f4"
_KINDS: dict[str, type[Message]] = {cls.__name__: cls for cls in Message.__subclasses__()}
_VECTORS = {"Train": "model", "Base": "model", "Update": "delta", "Snapshot": "model"}
"""Which field of a message travels as a frame."""

Buffer: TypeAlias = bytes | memoryview


class BadMessage(ValueError):
    """A peer sent frames that are not a message; the text says what is wrong with them."""


def largest_frame(size: int) -> int:
    """Bytes that a peer may send in one frame before the transport cuts it off: twice the model, or a header."""
    return max(2 * 4 * size, 2 * MAX_HEADER)


def encode(message: Message) -> list[Buffer]:
    """Frames of ``message``. The vector frame is a view: do not change the vector while it is being sent."""
    kind = type(message).__name__
    header = msgspec.structs.asdict(message)
    header["schema"], header["kind"] = SCHEMA, kind
    if kind == "Train":
        header["job"] = msgspec.to_builtins(header["job"])
    if kind not in _VECTORS:
        return [msgpack.packb(header)]
    vector = header.pop(_VECTORS[kind])
    header["dtype"], header["size"] = _DTYPE, vector.size
    # a zero-length memoryview cannot be cast to bytes
    return [msgpack.packb(header), memoryview(vector).cast("B") if vector.size else b""]


def decode(frames: Sequence[Buffer], size: int) -> Message:
    """The message in ``frames``; a vector must have exactly ``size`` numbers. Raises :class:`BadMessage`."""
    if not 1 <= len(frames) <= 2:
        more = " or more" if frames else ""  # sockets keep no more than show that it is none
        raise BadMessage(f"{len(frames)} frames{more}; a message has one or two")
    if len(frames[0]) > MAX_HEADER:
        raise BadMessage(f"header of {len(frames[0])} bytes; at most {MAX_HEADER} are allowed")
    try:
        header = msgpack.unpackb(frames[0], raw=False, strict_map_key=True)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise BadMessage(f"the header is not msgpack: {type(error).__name__}") from None
    if not isinstance(header, dict):
        raise BadMessage("the header is not a map")
    schema, kind = header.pop("schema", None), header.pop("kind", None)
    if type(schema) is not int or schema != SCHEMA:  # True and 1.0 are equal to 1
        raise BadMessage(f"unknown schema; this end speaks {SCHEMA}")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BadMessage("unknown kind of message")
    if kind in _VECTORS:
        if _VECTORS[kind] in header:
            raise BadMessage(f"{_VECTORS[kind]} must come as a frame")
        header[_VECTORS[kind]] = _take_vector(header, frames, size)
    elif len(frames) == 2:
        raise BadMessage(f"{kind} carries no vector, but one was sent")
    try:
        return msgspec.convert(header, type=_KINDS[kind])
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadMessage(f"{kind}: {error}") from None


def heard(frames: Sequence[Buffer] | None, size: int) -> Message | None:
    """What was said to a process that listens to one other, if anything was.

    What is no message is passed over, and noted in the log of the process: there is nobody who could be told.
    """
    if frames is None:
        return None
    try:
        return decode(frames, size)
    except BadMessage as problem:
        print(f"passed over what is no message: {problem}", file=sys.stderr)
        return None


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
    vector = np.frombuffer(frames[1], dtype=np.float32)
    vector.flags.writeable = False  # ZeroMQ's buffers could be written to; a message may not
    return vector
