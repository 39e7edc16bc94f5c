"""Catalogues: a name in a profile stands for an entry, or for a user's own class as ``module:Class``."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar, cast

from testbed.common.by_value.object_name import ObjectName
from testbed.common.errors import ProfileError, nearest
from testbed.common.finders import user_modules
from testbed.common.finders.user_code import in_one_line
from testbed.common.parameters import ParameterError

T = TypeVar("T")

IN_A_RUN = "EDGEBED_IN_A_RUN"
"""Set in the environment of processes that may import a user's script to get a class from it."""


class Catalogue(dict[str, type[T]]):
    """Name → class, in the order in which they are listed. A user's own class must derive from ``base``."""

    def __init__(self, base: type[Any], classes: Mapping[str, type[T]]) -> None:
        super().__init__(classes)
        self.base = base

    def find(self, name: str, source: str, key: str) -> type[T]:
        """Return the class that ``name`` stands for. Raises ProfileError if there is none, or if it is not usable."""
        if isinstance(name, ObjectName):
            problem = self._problem(name.value, name) if isinstance(name.value, type) else ""
            if problem:
                raise ProfileError(source, key, f"is {str(name)!r}; {problem}")
            return name.found_class
        if name in self:
            return self[name]
        place, colon, attribute = name.partition(":")
        if not colon or not place or not attribute or place.startswith("."):
            raise ProfileError(source, key, f"is {name!r}; {nearest(name, self)}, or your own as module:Class")
        own = _imported(place, name, source, key)
        found = getattr(own, attribute, None)
        problem = self._problem(found, attribute)
        if found is None:
            problem = f"{place} has no {attribute}; {nearest(attribute, _classes(own))}"
        if problem:
            raise ProfileError(source, key, f"is {name!r}; {problem}")
        return cast("type[T]", found)

    def _problem(self, found: object, name: str) -> str:
        """Return why ``found`` is not usable as a class of this catalogue; empty if it is."""
        if not isinstance(found, type):
            return f"{name} is not a class"
        if inspect.isabstract(found):
            missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
            return f"{name} is not complete: it must define {missing}"
        if not issubclass(found, self.base):
            return f"{name} is not a {self.base.__name__}: derive it from one"
        return "" if _has_its_fields(found) else f"put @dataclass above {name}, for its parameters"


def named_object(path: str, key: str, library: str) -> object:
    """Return what ``module:Name`` stands for: something of a ``library``, or a user's own. Raises ParameterError."""
    place, colon, attribute = path.partition(":")
    if not colon or not place or not attribute or place.startswith("."):
        raise ParameterError(
            key, f"is {path!r}; write it as module:Class, such as {library}.linear_model:SGDClassifier"
        )
    try:
        module = _imported(place, path, "", key, is_library=place.partition(".")[0] == library)
    except ProfileError as error:
        raise ParameterError(key, error.problem) from None
    found: object = getattr(module, attribute, None)
    if found is None:
        known = [name for name, value in vars(module).items() if isinstance(value, type) and not name.startswith("_")]
        raise ParameterError(key, f"is {path!r}; {place} has no {attribute}; {nearest(attribute, known)}")
    return found


def user_module(place: str) -> ModuleType:
    """Import a module of a user's, which is found in the folders of ``user_modules.FINDER``, too."""
    user_modules.FINDER.allow(place)
    return importlib.import_module(place)


def _imported(place: str, name: str, source: str, key: str, *, is_library: bool = False) -> ModuleType:
    try:
        # the lines of a library are not those of a user
        return importlib.import_module(place) if is_library else user_module(place)
    except ModuleNotFoundError as error:
        searched = "searched in this folder and in that of the profile"
        where = searched if place.startswith(error.name or place) else f"which {place} imports"
        raise ProfileError(source, key, f"is {name!r}; {error}, {where}") from None
    except Exception as error:  # noqa: BLE001  a user's module may fail in any way
        problem = f"{place} cannot be imported: {in_one_line(error)}"
        raise ProfileError(source, key, f"is {name!r}; {problem}") from None


def _has_its_fields(cls: type[Any]) -> bool:
    """Return whether all parameters of ``cls`` are fields: an undecorated subclass would lose those it declares."""
    return "__dataclass_fields__" in vars(cls) or (dataclasses.is_dataclass(cls) and not inspect.get_annotations(cls))


def _classes(module: ModuleType) -> list[str]:
    return [
        name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
    ]


def citation(cls: type[Any]) -> str:
    """Return the paper of a strategy: the second paragraph of its module's docstring."""
    document = sys.modules[cls.__module__].__doc__ or ""
    return " ".join(document.split("\n\n")[1].split())
