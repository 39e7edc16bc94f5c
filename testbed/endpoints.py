"""Where the aggregator is reached, and who else could reach it there: what leaves this machine is encrypted."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from testbed.errors import ProfileError
from testbed.profile import Transport

_EVERYWHERE = {"*": "0.0.0.0"}  # noqa: S104  as a user asks for it, and then it is encrypted
_LOOPBACK = {"tcp://0.0.0.0:": "tcp://127.0.0.1:", "tcp://[::]:": "tcp://[::1]:"}


def check(transport: Transport, source: str) -> None:
    """Refuse what cannot be, or would be open to others."""
    host = transport.host
    if transport.kind == "ipc":
        if host != Transport().host:
            problem = f"is {host!r}, and Unix sockets have no address: take transport.kind = 'tcp', or leave it out"
            raise ProfileError(source, "transport.host", problem)
        return
    try:
        _address(host)
    except ValueError:
        problem = f"is {host!r}; it must be an IP address of this machine, localhost, or * for all it has"
        raise ProfileError(source, "transport.host", problem) from None
    if not is_loopback(host) and transport.encrypt is False:
        problem = f"is false, and others reach transport.host = {host!r}: leave it out, or take host = '127.0.0.1'"
        raise ProfileError(source, "transport.encrypt", problem)


def is_encrypted(transport: Transport) -> bool:
    """As the profile says; where it says nothing, only beyond this machine."""
    if transport.encrypt is None:
        return transport.kind == "tcp" and not is_loopback(transport.host)
    return transport.encrypt


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address. What is not surely so, is not."""
    return _address(host).is_loopback


def endpoint(transport: Transport, private: Path) -> str:
    """To be bound to; ``private``: a short folder of nobody else, since a socket's path may have 107 bytes only."""
    if transport.kind == "ipc":
        return f"ipc://{private}/hub"
    address = _address(transport.host)
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"tcp://{host}:{transport.port or '*'}"


def from_here(bound: str) -> str:
    """How processes of this machine reach an endpoint that may be bound to all its addresses."""
    for everywhere, loopback in _LOOPBACK.items():
        if bound.startswith(everywhere):
            return loopback + bound.removeprefix(everywhere)
    return bound


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    known = {"localhost": Transport().host} | _EVERYWHERE
    return ipaddress.ip_address(known.get(host, host))
