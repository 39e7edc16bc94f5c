"""A device that has been silent for too long has left."""

from __future__ import annotations

from aggregator.process.presence import PresenceTracker


def test_a_device_is_silent_only_after_more_than_the_timeout() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.heard("a", 1.0)
    assert list(presence.silent(4.0)) == []
    assert list(presence.silent(4.5)) == ["a"]


def test_each_silence_is_told_once() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.heard("a", 0.0)
    assert list(presence.silent(10.0)) == ["a"]
    assert list(presence.silent(20.0)) == []
    presence.heard("a", 21.0)
    assert list(presence.silent(30.0)) == ["a"]


def test_every_sign_of_life_counts_from_then() -> None:
    presence = PresenceTracker(timeout=3.0)
    for moment in (0.0, 2.0, 4.0):
        presence.heard("a", moment)
        presence.heard("b", 0.0)
    assert list(presence.silent(6.5)) == ["b"]
    assert list(presence.silent(7.5)) == ["a"]


def test_a_device_may_be_heard_again_while_the_silent_ones_are_told() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.heard("a", 0.0)
    presence.heard("b", 0.0)
    told = []
    for device in presence.silent(10.0):
        told.append(device)
        presence.heard(device, 10.0)
    assert told == ["a", "b"]
    assert list(presence.silent(11.0)) == []
