"""Keys of profiles that have a new name. The old name is still read, because stored run folders contain it."""

from __future__ import annotations

from typing import Any

RENAMED_KEYS = {"transport.rate": "transport.message_limit", "presence.beat": "presence.heartbeat"}
"""Old key → new key. Both are written as ``--set`` writes them: section and name."""


def upgrade(table: dict[str, Any]) -> None:
    """Rename old keys of a profile in place. Where both names are given, the old one stays, to be reported."""
    for old, new in RENAMED_KEYS.items():
        section, _, name = old.partition(".")
        settings, current = table.get(section), new.partition(".")[2]
        if isinstance(settings, dict) and name in settings and current not in settings:
            settings[current] = settings.pop(name)


def current_key(key: str) -> str:
    """Return the present name of a key that is given on the command line."""
    return RENAMED_KEYS.get(key, key)
