"""Names in profiles to classes: an entry of a catalogue, or a user's own ``module:Class``."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from testbed.common.errors import ProfileError, nearest

T = TypeVar("T")


class Catalogue(dict[str, type[T]]):
    """Name → class, in the order in which they are listed. A user's own class must derive from ``base``."""

    def __init__(self, base: type[Any], classes: Mapping[str, type[T]]) -> None:
        super().__init__(classes)
        self.base = base

    def find(self, name: str, source: str, key: str) -> type[T]:
        """The class that ``name`` stands for: an entry, or the user's own as ``module:Class``. Raises ProfileError."""
        if name in self:
            return self[name]
        place, colon, attribute = name.partition(":")
        if not colon or not place or not attribute or place.startswith("."):
            raise ProfileError(source, key, f"is {name!r}; {nearest(name, self)}, or your own as module:Class")
        try:
            own = importlib.import_module(place)
        except ModuleNotFoundError as error:
            missing = error.name or place
            where = (
                "looked for in this folder and beside the profile"
                if place.startswith(missing)
                else f"which {place} wants"
            )
            raise ProfileError(source, key, f"is {name!r}; {error}, {where}") from None
        except Exception as error:  # noqa: BLE001  a user's module may fail in any way
            problem = f"{place} cannot be imported: {type(error).__name__}: {error}"
            raise ProfileError(source, key, f"is {name!r}; {problem}") from None
        found = getattr(own, attribute, None)
        if found is None:
            raise ProfileError(
                source, key, f"is {name!r}; {place} has no {attribute}; {nearest(attribute, _classes(own))}"
            )
        if not isinstance(found, type):
            raise ProfileError(source, key, f"is {name!r}; {attribute} is not a class")
        if inspect.isabstract(found):
            missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
            raise ProfileError(source, key, f"is {name!r}; {attribute} is not complete: it must define {missing}")
        if not issubclass(found, self.base):
            raise ProfileError(
                source, key, f"is {name!r}; {attribute} is not a {self.base.__name__}: derive it from one"
            )
        if not _has_its_fields(found):
            raise ProfileError(source, key, f"is {name!r}; put @dataclass above {attribute}, for its parameters")
        return cast(type[T], found)


def _has_its_fields(cls: type[Any]) -> bool:
    """Whether it is a dataclass of its own: one that only inherits from one would lose the parameters it declares."""
    return "__dataclass_fields__" in vars(cls) or (dataclasses.is_dataclass(cls) and not inspect.get_annotations(cls))


def _classes(module: ModuleType) -> list[str]:
    return [
        name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
    ]


def make_importable(*folders: Path) -> None:
    """Put the user's folders on the import path, behind everything that is there."""
    for folder in folders:
        place = str(folder.resolve())
        if place not in sys.path:
            sys.path.append(place)


def citation(cls: type[Any]) -> str:
    """Whose rule it is: the second paragraph of its file's docstring."""
    document = sys.modules[cls.__module__].__doc__ or ""
    return " ".join(document.split("\n\n")[1].split())
