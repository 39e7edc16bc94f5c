"""JSON as text for people and programs: files of a run, and what commands print with ``--format json``."""

from __future__ import annotations

import msgspec


def json_text(value: object) -> str:
    """Return ``value`` (a struct, a dataclass or plain values) as indented JSON. What is not finite becomes null."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
