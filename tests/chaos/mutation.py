"""Damages real frames, as bad hardware, attackers or other programs might. The same seed makes the same frames."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgpack

from testbed.wire.codec import MAX_HEADER, SCHEMA
from tests.chaos.corpus import Frames

_DEEP = 1200
"""Levels: more than Python's stack."""
_SCHEMA_BYTE = bytes([SCHEMA])
_LARGEST_FRAME = 3 * MAX_HEADER


class Mutator:
    """Makes frames from real ones. ``kinds`` counts the kinds of changes."""

    def __init__(self, rng: random.Random, corpus: Sequence[Frames], *, plausible: float = 0.0) -> None:
        """``plausible``: the share of messages in which only one number is changed, which any decoder accepts."""
        self._rng, self._corpus, self._plausible = rng, corpus, plausible
        self.kinds: dict[str, int] = {}

    def next(self) -> Frames:
        """The next message, with damage."""
        return self.of(self._rng.choice(self._corpus))

    def of(self, frames: Frames) -> Frames:
        """These frames after one to three changes."""
        if self._rng.random() < self._plausible:
            return self._done(_plausible_values, frames)
        for _ in range(self._rng.choice((1, 1, 1, 2, 3))):
            frames = self._done(self._rng.choices(_CHANGES, _WEIGHTS)[0], frames)
        return frames

    def _done(self, change: _Change, frames: Frames) -> Frames:
        name = change.__name__.strip("_")
        self.kinds[name] = self.kinds.get(name, 0) + 1
        return change(self._rng, [*frames], self._corpus)


# ---- bytes and frames


def _flipped_bits(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    return _in_one(rng, frames, lambda data: _flip(rng, data))


def _flip(rng: random.Random, data: bytearray) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut_off(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    return _in_one(rng, frames, lambda data: bytes(data[: rng.randrange(len(data))]))


def _patched(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    def patch(data: bytearray) -> bytes:
        start = rng.randrange(len(data))
        return bytes(data[:start] + rng.randbytes(rng.randrange(9)) + data[start + rng.randrange(9) :])

    return _in_one(rng, frames, patch)


def _announced_lengths(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """The header announces text, bytes, a list or a map of up to 4 billion entries; only a few follow."""

    def announce(data: bytearray) -> bytes:
        mark = bytes([rng.choice((0xC6, 0xC9, 0xDB, 0xDD, 0xDF))])
        length = struct.pack(">I", rng.choice((0xFFFFFFFF, 0x7FFFFFFF, MAX_HEADER, len(data))))
        start = rng.randrange(len(data))
        return bytes(data[:start] + mark + length + data[start:])

    return _in_one(rng, frames, announce)


def _spliced(rng: random.Random, frames: Frames, corpus: Sequence[Frames]) -> Frames:
    """The beginning of one header and the end of another."""
    other = rng.choice(corpus)[0]
    head = frames[0] if frames else b""
    return [head[: rng.randint(0, len(head))] + other[rng.randint(0, len(other)) :], *frames[1:]]


def _other_frames(rng: random.Random, frames: Frames, corpus: Sequence[Frames]) -> Frames:
    """A frame missing or doubled, another message appended, another order, or the vector of another message."""
    other, first = rng.choice(corpus), frames[:1]
    return rng.choice(
        (frames[1:], first, frames * 2, [*frames, b""], frames + other, frames[::-1], [*first, *other[1:]], [])
    )


def _random_bytes(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    made = [rng.randbytes(rng.choice((0, 1, 7, 64, 300))) for _ in range(rng.choice((1, 1, 2, 3)))]
    return [rng.choice((b"", _SCHEMA_BYTE)) + made[0], *made[1:]]


def _huge(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """A huge frame. Rarely, since it takes time to make."""
    if rng.random() > 0.01:
        return frames
    filler = bytes(rng.randint(MAX_HEADER - 100, _LARGEST_FRAME))
    text = msgpack.packb("x" * (MAX_HEADER - 6))  # with the schema byte, the largest header that is read
    return rng.choice(([filler], [_SCHEMA_BYTE + msgpack.packb(filler)], [*frames[:1], filler], [_SCHEMA_BYTE + text]))


def _other_schema(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """Another schema number, or none."""
    return [rng.choice((b"", b"\0", b"\1", b"\3", b"\xff", b"\xc3")) + frames[0][1:], *frames[1:]] if frames else frames


def _in_one(rng: random.Random, frames: Frames, change: Callable[[bytearray], bytes]) -> Frames:
    places = [i for i, frame in enumerate(frames) if frame]
    if places:
        i = rng.choice(places)
        frames[i] = change(bytearray(frames[i]))
    return frames


# ---- msgpack


def _changed_values(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """Another value somewhere in the header: of the wrong type, out of range, not finite, or valid by chance."""
    return _with_header(frames, lambda header: _replace(rng, header, _value(rng)))


def _plausible_values(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """A number of the right type and any size, which a decoder accepts."""
    return _with_header(frames, lambda header: _stretch(rng, header))


def _fields(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """A field is missing, added or renamed."""

    def change(header: Any) -> Any:
        if not isinstance(header, dict) or not header:
            return header
        key = rng.choice(list(header))
        value = header.pop(key)
        return header | rng.choice(({}, {"more": value}, {key: value, "more": 1}, {1: value}, {key[:-1]: value}))

    return _with_header(frames, change)


def _repeated_field(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """A field is there twice, the second time with another value."""

    def repack(header: Any) -> bytes:
        key = rng.choice(list(header))
        pairs = [*header.items(), (key, rng.choice((header[key], _value(rng))))]
        parts = [msgpack.packb(part) for pair in pairs for part in pair]
        return b"\xdf" + struct.pack(">I", len(pairs)) + b"".join(parts)

    return _with_header(frames, lambda header: header, repack)


def _nested(rng: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """Lists or maps nested deeper than any stack; as the whole header or in one field."""
    depth = rng.choice((3, 100, _DEEP, 20 * _DEEP))
    deep = rng.choice((b"\x91", b"\x81\xa1k")) * depth + b"\xc0"
    if rng.random() < 0.5 or not frames:
        return [_SCHEMA_BYTE + deep, *frames[1:]]
    mark = b"a mark that is nowhere else"
    marked = _with_header(frames, lambda header: _replace(rng, header, mark))
    return [marked[0].replace(msgpack.packb(mark), deep), *marked[1:]]


def _with_header(frames: Frames, change: Callable[[Any], Any], pack: Callable[[Any], bytes] = msgpack.packb) -> Frames:
    """The frames with another map after the schema byte."""
    try:
        header = msgpack.unpackb(frames[0][1:], strict_map_key=False)
        return [frames[0][:1] + pack(change(header)), *frames[1:]]
    except (ValueError, IndexError, TypeError, AttributeError, OverflowError, RecursionError, msgpack.UnpackException):
        return frames  # damaged before


def _replace(rng: random.Random, table: Any, value: Any) -> Any:
    """The same with another value in one place, at any depth."""
    if isinstance(table, dict) and table:
        key = rng.choice(list(table))
        inner = table[key]
        below = isinstance(inner, (dict, list)) and inner and rng.random() < 0.8
        return table | {key: _replace(rng, inner, value) if below else value}
    if isinstance(table, list) and table:
        at = rng.randrange(len(table))
        below = isinstance(table[at], (dict, list)) and rng.random() < 0.8
        return [*table[:at], _replace(rng, table[at], value) if below else value, *table[at + 1 :]]
    return value


def _stretch(rng: random.Random, table: Any) -> Any:
    """The same with one number changed, at any depth."""
    places = list(_numbers(table))
    if not places:
        return table
    holder, key = rng.choice(places)
    whole = isinstance(holder[key], int)
    holder[key] = rng.choice(_WHOLE) if whole else rng.choice(_REAL)
    return table


def _numbers(table: Any) -> Any:
    inner = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    for key, value in inner:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield table, key
        else:
            yield from _numbers(value)


_WHOLE = (0, 1, 2, 3, 5, 255, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_REAL = (0.0, -0.0, 1e-300, 5e-324, 0.5, 1.0, -1.0, 1e6, -1e6, 1e9, 1e15, 1e18, 1e300, -1e300)
_SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    "",
    "x",
    "x" * 1001,
    "x" * 70_000,
    "evaluator",
    "ä\0\n",
    b"",
    b"\xff\xfe",
    [],
    {},
    [1],
    {"a": 1},
    -1,
    -(2**63),
    1.5,
    1e301,
    math.nan,
    math.inf,
    -math.inf,
    *_WHOLE,
    *_REAL,
    msgpack.ExtType(5, b"abc"),
    msgpack.ExtType(127, b""),
    msgpack.Timestamp(0, 0),
    msgpack.Timestamp(2**40, 999),
    "<f8",
    ["<f4"],
    ["<f4", 2**53],
    "Stop",
    "Update",
    {"kind": []},
    {"kind": "trained"},
    {"kind": "Stop", "reason": ""},
    [{"kind": {}}],
    {1: 2},
)


def _value(rng: random.Random) -> Any:
    value = rng.choice(_SCALARS)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        value = rng.choice(([value], {"k": value}, [value] * 20, {"kind": value}))
    return value


_Change: TypeAlias = Callable[[random.Random, Frames, Sequence[Frames]], Frames]
_TABLE: dict[_Change, int] = {
    _flipped_bits: 12,
    _cut_off: 4,
    _patched: 8,
    _announced_lengths: 4,
    _spliced: 5,
    _other_frames: 4,
    _random_bytes: 3,
    _huge: 2,
    _other_schema: 2,
    _changed_values: 25,
    _plausible_values: 20,
    _fields: 6,
    _repeated_field: 2,
    _nested: 4,
}
_CHANGES, _WEIGHTS = list(_TABLE), list(_TABLE.values())
