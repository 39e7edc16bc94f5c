"""What tells the peers of a run from strangers: an id that nobody can guess, and where it is encrypted a pair of keys.

Made anew for every run by the launcher, and handed to each process when it is forked. Never written down: whoever has
a device's badge is that device.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

_ID_BYTES = 16

Pair = tuple[bytes, bytes]
"""A public and a secret key, as texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Of one peer, and the server's public one: so it knows whom it talks to."""

    public: bytes
    secret: bytes = field(repr=False)
    server: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What one peer shows. ``id`` is the routing id of its connection, which a ROUTER gives to whoever claims it."""

    id: str = field(repr=False)
    keys: Keys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList:
    """Whom the hub knows: the name behind each id and, where it is encrypted, behind each public key."""

    ids: Mapping[str, str] = field(repr=False)
    keys: Mapping[bytes, str] = field(default_factory=dict)
    secret: bytes | None = field(default=None, repr=False)
    """The server's own. None: nothing is encrypted."""


def issue(names: Iterable[str], new_pair: Callable[[], Pair] | None = None) -> tuple[AllowList, dict[str, Credential]]:
    """A badge for each name, and the list of them. ``new_pair`` makes keys; None: nothing is encrypted."""
    server = new_pair() if new_pair is not None else None
    credentials: dict[str, Credential] = {}
    for name in names:
        keys = None
        if new_pair is not None and server is not None:
            public, secret = new_pair()
            keys = Keys(public=public, secret=secret, server=server[0])
        credentials[name] = Credential(id=secrets.token_hex(_ID_BYTES), keys=keys)
    return AllowList(
        ids={credential.id: name for name, credential in credentials.items()},
        keys={credential.keys.public: name for name, credential in credentials.items() if credential.keys is not None},
        secret=server[1] if server is not None else None,
    ), credentials
