"""The pyproject.toml of a Flower project: which objects are its apps, and its run configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from testbed.common.errors import UserError

ConfigValue: TypeAlias = bool | int | float | str
RunConfig: TypeAlias = dict[str, ConfigValue]
"""What the apps see as ``context.run_config``: tables are flat, with keys such as ``model.width``."""

_HOW = 'a Flower project has [tool.flwr.app.components] with serverapp = "package.server_app:app" and clientapp = …'


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerProject:
    """What a project's pyproject.toml says."""

    folder: Path
    name: str
    server_app: str
    """As module:object."""
    client_app: str
    run_config: RunConfig

    @property
    def file(self) -> Path:
        return self.folder / "pyproject.toml"


def read(folder: Path) -> FlowerProject:
    """Read the project in ``folder``. Raises UserError if it is not a Flower project, or demands what we lack."""
    file = folder / "pyproject.toml"
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problem = "there is no pyproject.toml" if folder.is_dir() else "there is no such folder"
        raise UserError(f"{folder}: {problem}; name the folder of a Flower project: task = 'flower:PATH'") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read: {error}; correct it") from None
    flwr = _table(_table(table, "tool", file), "flwr", file)
    app = _table(flwr, "app", file)
    if not app:
        raise UserError(f"{file}: has no [tool.flwr.app]; {_HOW}")
    _check_gpus(flwr, file)
    components = _table(app, "components", file)
    return FlowerProject(
        folder=folder,
        name=str(_table(table, "project", file).get("name", folder.name)),
        server_app=_component(components, "serverapp", file),
        client_app=_component(components, "clientapp", file),
        run_config=dict(flat(_table(app, "config", file), f"{file}: [tool.flwr.app.config]")),
    )


def flat(table: Mapping[str, Any], where: str, prefix: str = "") -> Iterator[tuple[str, ConfigValue]]:
    """Yield keys such as ``model.width`` and their values. Raises UserError for a value that Flower does not allow."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, where, f"{prefix}{key}.")
        elif isinstance(value, ConfigValue):
            yield f"{prefix}{key}", value
        else:
            raise UserError(f"{where} {prefix}{key} is {value!r}; it must be a number, a text, true or false")


def merged(project: FlowerProject, changes: Mapping[str, Any]) -> RunConfig:
    """Return the run configuration with the changes of a profile. Raises UserError for a key that it does not have."""
    where = f"task.run_config: project {project.name}:"
    found = dict(flat(changes, where))
    for key, value in found.items():
        if key not in project.run_config:
            known = ", ".join(sorted(project.run_config)) or "none"
            raise UserError(f"{where} {key} is not in [tool.flwr.app.config] of {project.file} (there: {known})")
        before = project.run_config[key]
        is_number = isinstance(before, int | float) and isinstance(value, int | float)
        if type(value) is not type(before) and not (is_number and bool not in (type(before), type(value))):
            raise UserError(f"{where} {key} is {value!r}; it must be of the type of {before!r}")
    return {**project.run_config, **found}


def _table(table: Mapping[str, Any], key: str, file: Path) -> Mapping[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, Mapping):
        raise UserError(f"{file}: {key} is {found!r}; it must be a table")
    return found


def _component(components: Mapping[str, Any], key: str, file: Path) -> str:
    found = components.get(key)
    if found is None:
        raise UserError(f"{file}: [tool.flwr.app.components] has no {key}; {_HOW}")
    module, colon, name = str(found).partition(":")
    if not module or not colon or not name.isidentifier():
        raise UserError(f"{file}: {key} is {found!r}; it must be module:object, such as package.client_app:app")
    return str(found)


def _check_gpus(flwr: Mapping[str, Any], file: Path) -> None:
    """Raise UserError if the default federation of a project gives each client a share of a GPU."""
    federations = _table(flwr, "federations", file)
    default = federations.get("default")
    chosen = federations.get(default) if isinstance(default, str) else None
    if not isinstance(chosen, Mapping):
        return
    resources = dict(flat({"": chosen.get("options", {})}, f"{file}: [tool.flwr.federations.{default}]"))
    gpus = next((value for key, value in resources.items() if key.endswith("client-resources.num-gpus")), 0)
    if isinstance(gpus, int | float) and gpus > 0:
        raise UserError(
            f"{file}: its default federation {default} gives each client {gpus:g} GPUs, and devices have none;"
            " set num-gpus = 0 there, or name another federation as default"
        )
