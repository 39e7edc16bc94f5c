"""Keys and own classes in profiles that have a new name. The old names are still read: stored run folders have them."""

from __future__ import annotations

from testbed import learning
from testbed.common.parameters import TomlTable

RENAMED_KEYS = {"transport.rate": "transport.message_limit", "presence.beat": "presence.heartbeat"}
"""Old key → new key. Both are written as ``--set`` writes them: section and name."""
RENAMED_TASKS = {
    f"testbed.tasks.smaller:{name}": f"{learning.__name__}.tasks.smaller_tasks:{name}"
    for name in ("SmallFemnist", "SmallShakespeare")
}
"""Tasks that experiments of the project name as module:Class."""


def upgrade(table: TomlTable) -> None:
    """Rename old keys and tasks of a profile in place. If both names of a key are given, the old one stays."""
    for old, new in RENAMED_KEYS.items():
        section, _, name = old.partition(".")
        settings, current = table.get(section), new.partition(".")[2]
        if isinstance(settings, dict) and name in settings and current not in settings:
            settings[current] = settings.pop(name)
    task = table.get("task")
    if isinstance(task, dict) and isinstance(task.get("name"), str):
        task["name"] = RENAMED_TASKS.get(task["name"], task["name"])
    elif isinstance(task, str):
        table["task"] = RENAMED_TASKS.get(task, task)


def current_key(key: str) -> str:
    """Return the present name of a key that is given on the command line."""
    return RENAMED_KEYS.get(key, key)
