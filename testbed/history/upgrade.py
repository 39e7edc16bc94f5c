"""Events of traces that an earlier version wrote, converted to the present schema.

Schema 5 renamed four fields of schema 4 and changed nothing else. Schema 6 added *progressed*, *adopted*, *regrouped*,
*carried* and *paused*, which ``verify`` needs, and changed nothing else. ``testbed.history.trace.read`` converts each
line of an older trace, so that no other code sees the old names. Schemas before 4 are refused.
"""

from __future__ import annotations

from typing import Any

SCHEMA = 6
OLDEST = 4
"""The oldest schema that can be read."""

_RENAMED = {
    "dispatched": {"lead": "for_cluster"},
    "downloaded": {"held": "absent"},
    "uploaded": {"held": "absent"},
    "arrived": {"taken": "handled"},
    "asked": {"taken": "handled"},
    "grouped": {"book": "ticket_range"},
}
"""Kind of event → its fields in schema 4, and in schema 5 and later."""


def upgraded(event: dict[str, Any]) -> dict[str, Any]:
    """An event of schema 4 or 5, as decoded from JSON, with the present field names."""
    kind = event.get("kind")
    names = _RENAMED.get(kind, {}) if isinstance(kind, str) else {}
    return {names.get(key, key): value for key, value in event.items()}
