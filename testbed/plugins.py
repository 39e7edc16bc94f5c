"""Names in profiles to classes: an entry of a catalogue, or a user's own ``module:Class``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.errors import ProfileError, nearest


def catalogue(module: str) -> Mapping[str, type[Any]]:
    """The explicit name → class table of a package, imported by name."""
    table: Mapping[str, type[Any]] = importlib.import_module(module).CATALOGUE
    return table


def find(name: str, module: str, source: str, key: str) -> type[Any]:
    """The class that ``name`` means in the catalogue of ``module``, or the user's own class."""
    known = catalogue(module)
    if name in known:
        return known[name]
    place, colon, attribute = name.partition(":")
    if not colon:
        raise ProfileError(source, key, f"is {name!r}; {nearest(name, known)}, or your own as module:Class")
    try:
        found = getattr(importlib.import_module(place), attribute)
    except ModuleNotFoundError as error:
        raise ProfileError(
            source, key, f"is {name!r}; {error}, looked for in this folder and beside the profile"
        ) from None
    except AttributeError:
        raise ProfileError(source, key, f"is {name!r}; {place} has no {attribute}") from None
    if not isinstance(found, type):
        raise ProfileError(source, key, f"is {name!r}; {attribute} is not a class")
    return found


def make_importable(*folders: Path) -> None:
    """Put the user's folders on the import path, behind everything that is there."""
    for folder in folders:
        place = str(folder.resolve())
        if place not in sys.path:
            sys.path.append(place)
