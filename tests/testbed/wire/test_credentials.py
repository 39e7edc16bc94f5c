"""What tells peers from strangers."""

from __future__ import annotations

import itertools

from testbed.wire.credentials import Pair, issue

NAMES = ["rpi4-1", "rpi4-2", "evaluator"]


def test_everybody_has_an_id_of_its_own_that_nobody_can_guess() -> None:
    allow, badges = issue(NAMES)
    assert {allow.ids[badge.id]: badge.keys for badge in badges.values()} == dict.fromkeys(NAMES)
    assert all(len(badge.id) == 32 for badge in badges.values())
    assert (dict(allow.keys), allow.secret) == ({}, None)
    _, others = issue(NAMES)
    assert not {badge.id for badge in badges.values()} & {badge.id for badge in others.values()}


def test_each_key_is_bound_to_one_name_and_the_servers_secret_is_with_the_hub_only() -> None:
    numbers = itertools.count()

    def pair() -> Pair:
        number = next(numbers)
        return b"public %d" % number, b"secret %d" % number

    allow, badges = issue(NAMES, pair)
    assert allow.secret == b"secret 0"
    for name, badge in badges.items():
        assert badge.keys is not None
        assert (allow.keys[badge.keys.public], badge.keys.server) == (name, b"public 0")
        assert badge.keys.secret.replace(b"secret", b"public") == badge.keys.public
    assert len(allow.keys) == len(NAMES)
    # whatever is printed somewhere, no secret is
    shown = f"{allow} {badges}"
    assert "secret " not in shown
    assert not [badge for badge in badges.values() if badge.id in shown]
