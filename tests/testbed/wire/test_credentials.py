"""Ids and keys of peers."""

from __future__ import annotations

import itertools

from testbed.wire.credentials import KeyPair, issue

NAMES = ["rpi4-1", "rpi4-2", "evaluator"]


def test_each_peer_has_its_own_id_which_cannot_be_guessed() -> None:
    allow, credentials = issue(NAMES)
    assert {allow.ids[credential.id]: credential.keys for credential in credentials.values()} == dict.fromkeys(NAMES)
    assert all(len(credential.id) == 32 for credential in credentials.values())
    assert (dict(allow.keys), allow.secret) == ({}, None)
    _, others = issue(NAMES)
    assert not {credential.id for credential in credentials.values()} & {
        credential.id for credential in others.values()
    }


def test_each_key_belongs_to_one_name_and_only_the_hub_has_the_servers_secret() -> None:
    numbers = itertools.count()

    def pair() -> KeyPair:
        number = next(numbers)
        return b"public %d" % number, b"secret %d" % number

    allow, credentials = issue(NAMES, pair)
    assert allow.secret == b"secret 0"
    for name, credential in credentials.items():
        assert credential.keys is not None
        assert (allow.keys[credential.keys.public], credential.keys.server) == (name, b"public 0")
        assert credential.keys.secret.replace(b"secret", b"public") == credential.keys.public
    assert len(allow.keys) == len(NAMES)
    # no secret is printed by accident
    shown = f"{allow} {credentials}"
    assert "secret " not in shown
    assert not [credential for credential in credentials.values() if credential.id in shown]
