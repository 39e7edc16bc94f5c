"""Credentials: an id that cannot be guessed for each peer of a run and, with encryption, a pair of keys.

The launcher makes new ones for every run and passes each to its process when that is forked. They are never written to
a file: a process that has the credential of a device is that device.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

_ID_BYTES = 16

KeyPair = tuple[bytes, bytes]
"""A public and a secret key, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The key pair of one peer, and the hub's public key, by which the peer recognizes the hub."""

    public: bytes
    secret: bytes = field(repr=False)
    server: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What one peer presents. ``id`` is the routing id of its connection, which a ROUTER gives to any claimant."""

    id: str = field(repr=False)
    keys: Keys | None = None
    password: bool = False
    """Whether the id is presented as a password, before anything can be sent. Keys come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList:
    """The peers that the hub accepts: the name that belongs to each id and, with encryption, to each public key."""

    ids: Mapping[str, str] = field(repr=False)
    keys: Mapping[bytes, str] = field(default_factory=dict)
    secret: bytes | None = field(default=None, repr=False)
    """The hub's own secret key; None disables encryption."""
    passwords: bool = False
    """Without encryption: whether a peer must present its id as a password before it can send anything."""


def issue(
    names: Iterable[str], new_pair: Callable[[], KeyPair] | None = None, *, passwords: bool = False
) -> tuple[AllowList, dict[str, Credential]]:
    """Make a credential for each name, and the list of them. ``new_pair`` makes keys; None disables encryption.

    ``passwords``: without encryption, peers present their id before they can send anything.
    """
    server = new_pair() if new_pair is not None else None
    credentials: dict[str, Credential] = {}
    for name in names:
        keys = None
        if new_pair is not None and server is not None:
            public, secret = new_pair()
            keys = Keys(public=public, secret=secret, server=server[0])
        credentials[name] = Credential(id=secrets.token_hex(_ID_BYTES), keys=keys, password=passwords)
    return AllowList(
        ids={credential.id: name for name, credential in credentials.items()},
        keys={credential.keys.public: name for name, credential in credentials.items() if credential.keys is not None},
        secret=server[1] if server is not None else None,
        passwords=passwords,
    ), credentials
