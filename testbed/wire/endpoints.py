"""The endpoint of the aggregator, and whether other machines can reach it: then the channel is encrypted."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from testbed.common.errors import ProfileError
from testbed.common.parameters import param


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How processes communicate."""

    kind: str = param("ipc", "ipc: unix sockets in a private folder; tcp", choices=("ipc", "tcp"))
    host: str = param("127.0.0.1", "TCP address of this machine to listen at; * for all of them")
    port: int = param(0, "TCP port; 0 for a free one", at_least=0, at_most=65535)
    encrypt: bool | None = param(
        None,
        "CURVE, with keys that are made for the run; unset: with tcp. false: everybody who can read the traffic of this"
        " machine can send as any device",
    )
    message_limit: float = param(
        10_000.0,
        "messages per host second that the aggregator accepts from one peer; a bad one counts as a hundred",
        at_least=10,
        at_most=1e9,
    )


_UNENCRYPTED = (
    "transport.encrypt is false: who can read the traffic of this machine can read the model and send as any device;"
    " leave it out to encrypt"
)

_EVERYWHERE = {"*": "0.0.0.0"}  # noqa: S104  only if the user asks for it, and encrypted
_LOOPBACK = {"tcp://0.0.0.0:": "tcp://127.0.0.1:", "tcp://[::]:": "tcp://[::1]:"}


def check(transport: Transport, source: str) -> None:
    """Raise ProfileError if the address is invalid, or if other machines could read the traffic."""
    host = transport.host
    if transport.kind == "ipc":
        if host != Transport().host:
            problem = f"is {host!r}, and Unix sockets have no address; set transport.kind = 'tcp', or leave it out"
            raise ProfileError(source, "transport.host", problem)
        return
    try:
        _address(host)
    except ValueError:
        problem = f"is {host!r}; it must be an IP address of this machine, localhost, or * for all addresses"
        raise ProfileError(source, "transport.host", problem) from None
    if not is_loopback(host) and transport.encrypt is False:
        problem = (
            f"is false, and other machines can reach transport.host = {host!r}; leave it out, or set host = '127.0.0.1'"
        )
        raise ProfileError(source, "transport.encrypt", problem)


def is_encrypted(transport: Transport) -> bool:
    """``transport.encrypt``; if that is unset, whether other users of this machine can reach the endpoint."""
    return transport.kind == "tcp" if transport.encrypt is None else transport.encrypt


def warnings(transport: Transport) -> list[str]:
    """What a user must know about the endpoint before a run."""
    return [_UNENCRYPTED] if transport.kind == "tcp" and not is_encrypted(transport) else []


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return _address(host).is_loopback


def endpoint(transport: Transport, private: Path) -> str:
    """The endpoint to bind to. ``private`` is a folder with a short path: that of a socket may have 107 bytes only."""
    if transport.kind == "ipc":
        return f"ipc://{private}/hub"
    address = _address(transport.host)
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"tcp://{host}:{transport.port or '*'}"


def local_address(bound: str) -> str:
    """The address at which processes of this machine reach an endpoint, which may be bound to all its addresses."""
    for everywhere, loopback in _LOOPBACK.items():
        if bound.startswith(everywhere):
            return loopback + bound.removeprefix(everywhere)
    return bound


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    known = {"localhost": Transport().host} | _EVERYWHERE
    return ipaddress.ip_address(known.get(host, host))
