"""A user's strategy or task given as a class: how its name reaches the processes of a run.

These processes are forked from a template, which is a fresh interpreter: it does not have the objects of the notebook
or script that starts the run. So a class travels by its import path, ``module:Class``, and every process imports it. A
class that cannot be imported, such as one from a notebook cell or a function, is refused; the error says what to do.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.common.errors import UserError
from testbed.common.parameters import Named, as_table
from testbed.common.plugins import IN_A_RUN, Catalogue

_FIRST_USED: dict[type[Any], int] = {}
"""Class → when its file was last changed before the class was first used."""
_WRITE = "write it to a file, such as with %%writefile own.py in a cell of its own, and import it from there"


def as_named(given: object, catalogue: Catalogue[Any], what: str) -> Named:
    """Return a strategy or task as a profile names it: a name, or a table with its parameters. Raises UserError.

    ``given``: a name, a table, a class (with its default parameters) or an object of a class (with its own).
    """
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, type):
        return _name_of(given, catalogue, what)
    if dataclasses.is_dataclass(given) and isinstance(given, catalogue.base):
        parameters = as_table(given)
        return {"name": _name_of(type(given), catalogue, what), **parameters}
    text = "a function" if callable(given) else f"an object of {type(given).__name__}"
    raise UserError(f"{what}={given!r}: is {text}; it must be a name, a class, or an object of such a class")


def check_not_in_a_run() -> None:
    """Raise UserError in a process of a run: it imports the script that starts runs, to get a class from it."""
    if IN_A_RUN in os.environ:
        raise UserError(
            "this script starts a run as soon as it is imported, and a process of a run has imported it; put the code"
            ' that starts runs under if __name__ == "__main__":'
        )


def _name_of(cls: type[Any], catalogue: Catalogue[Any], what: str) -> str:
    shipped = next((name for name, known in catalogue.items() if known is cls), None)
    if shipped is not None:
        return shipped
    name, module = cls.__qualname__, cls.__module__
    if "<locals>" in name or "." in name:
        raise UserError(f"{what}={name}: is defined inside a function or class; move it to the top level of a module")
    if module == "__main__":
        module = _main_module(what, name)
    if getattr(sys.modules.get(module), name, None) is not cls:
        raise UserError(f"{what}={name}: {module} has no such class, so that no process can import it; {_WRITE}")
    _check_unchanged(cls, module, what)
    return f"{module}:{name}"


def _check_unchanged(cls: type[Any], module: str, what: str) -> None:
    """Raise UserError if the file of a class was changed since the class was first used here.

    Processes read the file, and this process has the class: code and parameters would be of two versions.
    """
    file = getattr(sys.modules[module], "__file__", None)
    if file is None or not Path(file).is_file():
        return
    changed = Path(file).stat().st_mtime_ns
    if _FIRST_USED.setdefault(cls, changed) != changed:
        raise UserError(
            f"{what}={cls.__name__}: {file} has changed since it was imported; import it again with"
            f" importlib.reload({module})"
        )


def _main_module(what: str, name: str) -> str:
    """The name under which processes can import the running script. Raises UserError in a notebook or a shell."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if file is not None and Path(file).is_file() and not Path(file).stem.isidentifier():
        problem = f"{Path(file).name} cannot be imported under this name"
        raise UserError(f"{what}={name}: {problem}; give it one of letters, digits and _, such as my_script.py")
    if file is None or not Path(file).is_file():
        where = "in this notebook or shell, from which no process of a run can import it"
        raise UserError(f"{what}={name}: is defined {where}; {_WRITE}")
    module = Path(file).stem if spec is None else str(spec.name)  # python -m package.module has a spec
    sys.modules.setdefault(module, main)  # or it would be executed once more, in this process
    return module
