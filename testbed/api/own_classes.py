"""A user's strategy or task given as a class or an object: how it reaches the processes of a run.

These processes are forked from a template, which is a fresh interpreter: it does not have the objects of the notebook
or script that starts the run. A class of a module travels by its import path, ``module:Class``, with the parameters of
the object; every process imports it. What no process can import travels by value (``testbed.common.by_value``): a class
of a notebook cell, a script or a function, and a task that has more than its parameters. The runs of a sweep are
started from profiles, which have names only.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.common.by_value import unpicklable
from testbed.common.by_value.object_name import ObjectName
from testbed.common.by_value.snapshot import NotPicklable
from testbed.common.errors import UserError
from testbed.common.parameters import Named, TomlTable, as_table
from testbed.common.plugins import IN_A_RUN, Catalogue
from testbed.profile.schema import Experiment

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


def chosen(given: object, catalogue: Catalogue[Any], what: str) -> Named:
    """Return a strategy or task for one run, as :func:`as_named`, or with the object itself. Raises UserError."""
    cls = given if isinstance(given, type) else type(given)
    is_own = dataclasses.is_dataclass(cls) and issubclass(cls, catalogue.base)
    if not is_own or (_is_importable(cls) and (isinstance(given, type) or _has_parameters_only(given))):
        return as_named(given, catalogue, what)
    name = f"{cls.__module__}:{cls.__qualname__}"
    if what == "task":
        task = _made(cls, what) if isinstance(given, type) else given
        return {"name": ObjectName(name, task), "object": True, **_plain_fields(task)}
    parameters = {} if isinstance(given, type) else _plain_fields(given)
    lost = [] if isinstance(given, type) else [each.name for each in _fields(cls) if each.name not in parameters]
    beyond = next((each for each in lost if getattr(given, each) is not None), None)
    if beyond is not None:
        problem = f"its parameter {beyond} is of type {type(getattr(given, beyond)).__name__}"
        raise UserError(f"{what}={name}: {problem}; parameters of a strategy are numbers, texts, lists or tables")
    return {"name": ObjectName(name, cls), "object": True, **parameters}


def check_travels(experiment: Experiment) -> None:
    """Take a snapshot of each Python object of an experiment. Raises UserError, with what cannot be sent."""
    for what, name in (("task", experiment.task_name), ("strategy", experiment.strategy_name)):
        if isinstance(name, ObjectName):
            try:
                name.snapshot()
            except NotPicklable as error:
                place, kind = unpicklable.place_of_problem(name.value, what)
                problem = f"{place} is of type {kind}, which cannot be sent to the processes of a run ({error})"
                raise UserError(f"{what}={name}: {problem}; make it where it is used, such as in data()") from None


def _made(cls: type[Any], what: str) -> Any:
    try:
        return cls()
    except TypeError as error:
        raise UserError(f"{what}={cls.__name__}: {error}; give an object: {what}={cls.__name__}(…)") from None


def _is_importable(cls: type[Any]) -> bool:
    module = sys.modules.get(cls.__module__)
    if cls.__module__ == "__main__" or getattr(module, "__file__", None) is None:
        return False
    return getattr(module, cls.__qualname__, None) is cls


def _has_parameters_only(given: object) -> bool:
    """Whether the parameters of an object are values of a profile, and it has nothing else.

    Fields that are no parameters do not count: the object sets them itself, when it is made or used.
    """
    cls: type[Any] = type(given)
    names = {field.name for field in dataclasses.fields(cls)}
    values = [getattr(given, field.name) for field in _fields(cls)]
    return set(vars(given)) <= names and all(value is None or _is_plain(value) for value in values)


def _plain_fields(given: object) -> TomlTable:
    """Return the parameters of an object that a profile can have."""
    values = {field.name: getattr(given, field.name) for field in _fields(type(given))}
    return {name: as_table(value) for name, value in values.items() if value is not None and _is_plain(value)}


def _fields(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(cls) if field.init]


def _is_plain(value: object) -> bool:
    """Whether a profile can have a value."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _is_plain(as_table(value))
    return type(value) in (str, bool, float) or (type(value) is int and -(2**63) <= value < 2**63)


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
