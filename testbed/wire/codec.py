"""Encodes messages as frames and decodes them: a header, and the vector (if any) as a raw frame of its own (ADR 22).

The header is the schema number, one byte, followed by the message as a msgpack map with its class name under ``kind``.
Both parts are plain msgpack. A vector is never in the header, which has only its dtype and size: msgpack always copies.
The frame of a compressed delta has its bytes as ``compression`` makes them, and the header its method and their number.

Decoding is strict. The schema number is checked before the rest is interpreted. msgspec checks kind, field names, types
and ranges of the message and of the events in it; this file checks frames and vectors. Frames that are not a valid
message raise :class:`BadMessage`, never anything else.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
from collections.abc import Sequence
from typing import Any, TypeAlias, Union

import msgspec
import numpy as np

from testbed.wire.compression import BadPayload, Compressed, decompress
from testbed.wire.messages import (
    DTYPE,
    Base,
    Message,
    Payload,
    PayloadShape,
    Snapshot,
    Train,
    Update,
    Vector,
    VectorShape,
)

SCHEMA = 2
MAX_HEADER = 1 << 20
_VECTOR_FIELDS: dict[type[Message], str] = {Train: "model", Base: "model", Update: "delta", Snapshot: "model"}
"""Message type → the field that travels as a frame."""

Buffer: TypeAlias = bytes | memoryview

_MOST_LOGGED = 100
_logged: set[str] = set()


class BadMessage(ValueError):
    """A peer sent frames that are not a message; the text says what is wrong."""


class _Claim(msgspec.Struct):
    """The one field that is read of a header that is not a message."""

    kind: str


@functools.lru_cache(maxsize=8)
def _shape(size: int) -> VectorShape:
    return VectorShape(DTYPE, size)


def _encodable(value: object) -> object:
    """A value that msgspec cannot encode itself, as one that it can. Raises TypeError if no message may contain it."""
    if isinstance(value, np.ndarray):
        return _shape(value.size)
    if isinstance(value, Compressed):
        return PayloadShape(value.method, value.nbytes)
    if isinstance(value, float):  # np.float64, from the arithmetic of a strategy
        return float(value)
    raise TypeError(f"a message cannot contain a {type(value).__name__}")


_KINDS = {cls.__name__: cls for cls in Message.__subclasses__()}
_ANY: Any = Union[tuple(_KINDS.values())]  # noqa: UP007  built from a table
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not msgpack; a ValidationError, which is a DecodeError, is caught before."""
_FLOAT32 = np.dtype(DTYPE)
_SCHEMA_BYTE = bytes([SCHEMA])
_encoder = msgspec.msgpack.Encoder(enc_hook=_encodable)
_decoder = msgspec.msgpack.Decoder(_ANY)
_claims = msgspec.msgpack.Decoder(_Claim)


def largest_frame(size: int) -> int:
    """The most bytes that the transport accepts in one frame: twice the model, or a header."""
    return max(2 * 4 * size, 2 * MAX_HEADER)


def encode(message: Message) -> list[Buffer]:
    """The frames of ``message``. The vector frame is a view: do not change the vector while it is being sent.

    A compressed update is sent by the device that made it; a receiver has no payload that it could send again.
    """
    header = _SCHEMA_BYTE + _encoder.encode(message)
    field = _VECTOR_FIELDS.get(type(message))
    if field is None:
        return [header]
    if isinstance(message, Update) and message.payload is not None:
        if not isinstance(message.payload, Compressed):
            raise TypeError("an update that was received compressed cannot be sent again")
        return [header, message.payload.data]
    vector = getattr(message, field)
    # a zero-length memoryview cannot be cast to bytes
    return [header, memoryview(vector).cast("B") if vector.size else b""]


def decode(frames: Sequence[Buffer], size: int) -> Message:
    """The message in ``frames``; a vector must have exactly ``size`` numbers. Raises :class:`BadMessage`."""
    if not 1 <= len(frames) <= 2:
        more = " or more" if frames else ""  # the sockets drop frames beyond the limit
        raise BadMessage(f"{len(frames)} frames{more}; a message has one or two")
    message = _message(frames[0])
    field = _VECTOR_FIELDS.get(type(message))
    if field is not None:
        payload = message.payload if isinstance(message, Update) else None
        vector = _vector(getattr(message, field), payload, frames, size)
        msgspec.structs.force_setattr(message, field, vector)
    elif len(frames) == 2:
        raise BadMessage(f"{type(message).__name__} carries no vector, but one was sent")
    return message


def decode_or_log(frames: Sequence[Buffer] | None, size: int) -> Message | None:
    """Decode frames in a process with a single peer; None if there are none, or if they are not a message.

    Each kind of invalid frames is noted once in the log of the process: there is no other place to report them.
    """
    if frames is None:
        return None
    try:
        return decode(frames, size)
    except BadMessage as problem:
        _log_once(str(problem), f"ignored an invalid message: {problem}")
    except Exception as problem:  # noqa: BLE001  no frame may end a process
        unexpected(problem)
    return None


def unexpected(problem: Exception) -> str:
    """Return a reason to refuse a frame that caused an exception of no foreseen kind, and log the exception once."""
    text = f"{type(problem).__name__}: {problem}"
    _log_once(text, "".join(traceback.format_exception(problem)))
    return f"it could not be read ({text})"


def _log_once(text: str, entry: str) -> None:
    """Log what was not logged before; a peer may send any number of different ones, so only the first few."""
    if text not in _logged and len(_logged) < _MOST_LOGGED:
        _logged.add(text)
        with contextlib.suppress(OSError):
            print(entry, file=sys.stderr, flush=True)


def _message(header: Buffer) -> Message:
    """The message in a header. The field of its vector is a :class:`VectorShape`."""
    if len(header) > MAX_HEADER:
        raise BadMessage(f"header of {len(header)} bytes; at most {MAX_HEADER} are allowed")
    if not header or header[0] != SCHEMA:
        raise BadMessage(f"unknown schema; this side uses {SCHEMA}")
    try:
        message: Message = _decoder.decode(header[1:])
    except msgspec.ValidationError as error:
        raise BadMessage(_refusal(header[1:], error)) from None
    except _MALFORMED as error:
        raise BadMessage(_not_msgpack(error)) from None
    return message


def _refusal(header: Buffer, error: msgspec.ValidationError) -> str:
    """Why a header is not a message, after the kind of message that it claims to be.

    The header is read again, to its end: a damaged one may have its first wrong value before the damage.
    """
    try:
        kind = _claims.decode(header).kind
    except msgspec.ValidationError as problem:
        return f"the header is not a message: {problem}"
    except _MALFORMED as problem:
        return _not_msgpack(problem)
    return f"{kind}: {error}" if kind in _KINDS else "unknown kind of message"


def _not_msgpack(problem: Exception) -> str:
    return f"the header is not msgpack: {type(problem).__name__}"


def _vector(announced: VectorShape, payload: Payload | None, frames: Sequence[Buffer], size: int) -> Vector:
    if len(frames) != 2:
        raise BadMessage("the vector frame is missing")
    if announced.size != size:
        raise BadMessage(f"wrong shape: the model has {size} numbers")
    nbytes = 4 * size if payload is None else payload.nbytes
    if len(frames[1]) != nbytes:
        raise BadMessage(f"vector frame of {len(frames[1])} bytes; the header announces {nbytes}")
    if payload is not None:
        try:
            return decompress(payload.method, frames[1], size)
        except BadPayload as problem:
            raise BadMessage(str(problem)) from None
    vector = np.frombuffer(frames[1], dtype=_FLOAT32)
    vector.setflags(write=False)  # ZeroMQ's buffers are writable; a message must not be
    return vector
