"""``task = "flower:PATH"``: the table that it stands for."""

from __future__ import annotations

from testbed.common.parameters import TomlTable

_NAME = "flower"
_PREFIX = "flower:"


def expand_flower_task(table: TomlTable) -> None:
    """Write out ``flower:PATH`` in a profile's table, in place.

    A job of a Flower project is one call of its client, which has all the device's samples, unless the profile says
    otherwise.
    """
    given = table.get("task")
    task: TomlTable = given if isinstance(given, dict) else {"name": given}
    name = task.get("name")
    if not isinstance(name, str):
        return
    if name.startswith(_PREFIX):
        task = {**task, "name": _NAME, "project": name.removeprefix(_PREFIX)}
        table["task"] = task
    if task["name"] != _NAME:
        return
    training = table.setdefault("training", {})
    if isinstance(training, dict):
        training.setdefault("batch", 0)
        if not training.get("epochs"):
            training.setdefault("steps", 1)
