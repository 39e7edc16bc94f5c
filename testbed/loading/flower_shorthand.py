"""``task = "flower:PATH"``: the table that it stands for."""

from __future__ import annotations

from pathlib import Path

from testbed.common.parameters import TomlTable

_NAME = "flower"
_PREFIX = "flower:"


def expand_flower_task(table: TomlTable, folder: Path) -> None:
    """Write out ``flower:PATH`` in a profile's table, in place. A relative path is one from ``folder``.

    A job of a Flower project is one call of its client, which has all the device's samples, unless the profile says
    otherwise.
    """
    given = table.get("task")
    task: TomlTable = given if isinstance(given, dict) else {"name": given}
    name, project = task.get("name"), task.get("project", ".")
    if not isinstance(name, str):
        return
    if name.startswith(_PREFIX):
        name, project = _NAME, name.removeprefix(_PREFIX)
    if name != _NAME:
        return
    place = {"project": str((folder / project).resolve())} if isinstance(project, str) else {}
    table["task"] = {**task, "name": name, **place}
    training = table.setdefault("training", {})
    if isinstance(training, dict):
        training.setdefault("batch", 0)
        if not training.get("epochs"):
            training.setdefault("steps", 1)
