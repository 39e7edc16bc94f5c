"""Where the aggregator is reached, and who else could reach it there: what leaves this machine is encrypted."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from testbed.common.errors import ProfileError
from testbed.common.parameters import param


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How processes talk."""

    kind: str = param("ipc", "ipc: unix sockets in a private folder; tcp", choices=("ipc", "tcp"))
    host: str = param("127.0.0.1", "TCP address to listen at, one of this machine's; * for all of them")
    port: int = param(0, "TCP port; 0 takes a free one", at_least=0, at_most=65535)
    encrypt: bool | None = param(
        None, "CURVE, with keys that are made for the run; unset: where others than this machine reach transport.host"
    )
    rate: float = param(
        10_000.0,
        "messages per host second that the aggregator takes of one peer; a bad one counts as a hundred",
        at_least=10,
    )


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
