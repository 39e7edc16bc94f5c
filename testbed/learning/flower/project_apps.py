"""Imports the ServerApp and the ClientApp of a project."""

from __future__ import annotations

from typing import Any

from testbed.common import plugins
from testbed.common.errors import UserError
from testbed.common.finders import user_modules
from testbed.common.finders.user_code import in_one_line
from testbed.learning.flower.no_network import refused_connections
from testbed.learning.flower.project_file import FlowerProject


def load(project: FlowerProject, component: str, kind: type[Any]) -> Any:
    """Return the app that ``module:object`` names. Raises UserError if it cannot be imported or is no such app."""
    module, _, name = component.partition(":")
    user_modules.FINDER.search_in(project.folder)
    try:
        with refused_connections():
            found = getattr(plugins.user_module(module), name, None)
    except ModuleNotFoundError as error:
        remedy = (
            "correct [tool.flwr.app.components]"
            if module.startswith(error.name or module)
            else f"install it, or all that the project needs: pip install -e {project.folder}"
        )
        raise UserError(f"{project.file}: {component}: {in_one_line(error, with_type=False)}; {remedy}") from None
    except (Exception, SystemExit) as error:
        raise UserError(f"{project.file}: {component} cannot be imported: {in_one_line(error)}") from error
    if not isinstance(found, kind):
        given = f"has no {name}" if found is None else f"{name} is a {type(found).__name__}"
        raise UserError(f"{project.file}: {component}: module {module} {given}; it must be a {kind.__name__}")
    return found
