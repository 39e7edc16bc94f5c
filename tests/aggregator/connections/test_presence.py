"""Devices that have been silent for too long."""

from __future__ import annotations

from aggregator.connections.presence import PresenceTracker


def test_a_device_is_silent_only_after_more_than_the_timeout() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.note_message("a", 1.0)
    assert list(presence.silent(4.0)) == []
    assert list(presence.silent(4.5)) == ["a"]


def test_each_silence_is_reported_once() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.note_message("a", 0.0)
    assert list(presence.silent(10.0)) == ["a"]
    assert list(presence.silent(20.0)) == []
    presence.note_message("a", 21.0)
    assert list(presence.silent(30.0)) == ["a"]


def test_the_timeout_counts_from_the_last_message() -> None:
    presence = PresenceTracker(timeout=3.0)
    for moment in (0.0, 2.0, 4.0):
        presence.note_message("a", moment)
        presence.note_message("b", 0.0)
    assert list(presence.silent(6.5)) == ["b"]
    assert list(presence.silent(7.5)) == ["a"]


def test_a_message_may_be_noted_while_the_silent_devices_are_reported() -> None:
    presence = PresenceTracker(timeout=3.0)
    presence.note_message("a", 0.0)
    presence.note_message("b", 0.0)
    found = []
    for device in presence.silent(10.0):
        found.append(device)
        presence.note_message(device, 10.0)
    assert found == ["a", "b"]
    assert list(presence.silent(11.0)) == []
