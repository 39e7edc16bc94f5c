"""What strangers send through a TCP connection that no ZeroMQ peer of ours would send, drawn from a seed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
_LONG_COMMAND, _LONG_MORE, _MORE = 0x06, 0x03, 0x01
_TLS = bytes.fromhex("1603010200010001fc0303") + bytes(range(256)) * 2
_HTTP = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"
_LENGTHS = (1 << 63, (1 << 63) - 1, (1 << 64) - 1, 1 << 32, (1 << 31) - 1, 3 << 20)
_MOST_ENDLESS = 8 << 20
_HELD = 3.0
_ENDLESS_SHARE = 0.005


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """One connection: the bytes that it sends, how long it stays open afterwards, and how it ends."""

    kind: str
    data: bytes
    hold: float = 0.0
    """Host seconds."""
    reset: bool = False
    """End with RST instead of FIN."""
    repeat: int = 1
    """How often the last part of the data, ``again``, is sent."""
    again: bytes = b""
    after: int = 0
    """It is sent when the other side has sent more bytes than this."""
    reads: bool = True


def greeting(mechanism: bytes, version: int = 3) -> bytes:
    return _SIGNATURE + bytes([version, 0]) + mechanism.ljust(20, b"\0") + bytes(32)


def command(name: bytes, body: bytes) -> bytes:
    content = bytes([len(name)]) + name + body
    return bytes([0x04, len(content)]) + content


def ready() -> bytes:
    """The metadata of a DEALER, as it ends the handshake of the mechanism NULL."""
    body = b"".join(
        bytes([len(key)]) + key + struct.pack(">I", len(value)) + value
        for key, value in ((b"Socket-Type", b"DEALER"), (b"Identity", b"rpi4-1"))
    )
    return command(b"READY", body)


def _handshakes() -> dict[str, bytes]:
    """Whole handshakes of strangers, with a message where the protocol allows one."""
    message = b"\x00\x05hello"
    password = b"\x07edgebed" + b"\x20" + b"0" * 32
    return {
        "ZMTP 1": bytes.fromhex("01000400616263"),
        "ZMTP 2": _SIGNATURE + b"\x01\x05\x00\x00" + message,
        "NULL": greeting(b"NULL") + ready() + message,
        "PLAIN": greeting(b"PLAIN") + command(b"HELLO", password) + command(b"INITIATE", ready()[7:]) + message,
        "CURVE": greeting(b"CURVE") + command(b"HELLO", b"\x01\x00" + bytes(72) + bytes(range(120))),
        "unknown mechanism": greeting(b"GSSAPI") + ready(),
    }


def cuts() -> Iterator[Hostile]:
    """Every handshake, cut after each of its bytes."""
    for name, data in _handshakes().items():
        for place in range(len(data) + 1):
            yield Hostile(kind=f"{name}, cut", data=data[:place], reset=place % 2 == 1)


def drawn(rng: random.Random) -> Iterator[Hostile]:
    """Hostile connections without end: all cuts first, then any kind."""
    yield from cuts()
    makers: list[Callable[[random.Random], Hostile]] = [
        lambda rng: Hostile(kind="TLS", data=_TLS[: rng.randrange(1, len(_TLS))]),
        lambda rng: Hostile(kind="HTTP", data=_HTTP),
        lambda rng: Hostile(kind="random bytes", data=rng.randbytes(rng.randrange(1, 2000))),
        _damaged,
        lambda rng: Hostile(kind="half open", data=_SIGNATURE[: rng.randrange(11)], hold=rng.uniform(0.0, _HELD)),
        lambda rng: Hostile(kind="slow reader", data=_handshakes()["NULL"], hold=rng.uniform(0.0, 1.0), reads=False),
        _announced,
        lambda rng: Hostile(kind="reset", data=b"", reset=True),
    ]
    mechanisms = [b"NULL", b"PLAIN", b"CURVE"]
    while True:
        yield endless(rng.choice(mechanisms)) if rng.random() < _ENDLESS_SHARE else rng.choice(makers)(rng)


def half_open(hold: float = _HELD) -> Iterator[Hostile]:
    """Connections that begin a greeting, and then stay open for as long as they may."""
    while True:
        yield Hostile(kind="half open, held", data=_SIGNATURE, hold=hold)


def _damaged(rng: random.Random) -> Hostile:
    data = bytearray(rng.choice([*_handshakes().values()]))
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return Hostile(kind="damaged handshake", data=bytes(data))


def _announced(rng: random.Random) -> Hostile:
    """A frame that is announced as longer than any memory, at once or after a handshake."""
    name = rng.choice(("NULL", "PLAIN", "CURVE"))
    begin = greeting(name.encode()) + (ready() if name == "NULL" else b"")
    flags = _LONG_MORE if name == "NULL" else _LONG_COMMAND
    frame = bytes([flags]) + struct.pack(">Q", rng.choice(_LENGTHS))
    return Hostile(kind="announced length", data=begin + frame + rng.randbytes(rng.randrange(500)))


def endless(mechanism: bytes, most: int = _MOST_ENDLESS, frame_bytes: int = 1 << 16) -> Hostile:
    """A message without an end: under NULL, frames that announce another one; else a command of a handshake."""
    if mechanism == b"NULL":
        again = bytes([_LONG_MORE]) + struct.pack(">Q", frame_bytes) + bytes(frame_bytes)
        begin, after = greeting(mechanism) + ready(), len(greeting(mechanism))  # until the handshake is complete
    else:
        again, after = bytes(frame_bytes), 0
        begin = greeting(mechanism) + bytes([_LONG_COMMAND]) + struct.pack(">Q", (2 << 20) - 1)
    return Hostile(kind="endless", data=begin, again=again, repeat=most // len(again), hold=_HELD, after=after)
