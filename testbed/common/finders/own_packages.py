"""Lets a program of ours import our packages from the folder that they are in, and nothing else from there.

Python puts the folder of a program first on the import path. For us that is the project's folder, which is often also
the one in which a user works: an ``opt_einsum.py`` there would be executed because torch imports a module of this name
if there is one. So each of our programs first exchanges the folder for a finder of our packages. Where they are
installed, their folder is on the import path for other reasons, and stays. The programs that a launcher starts get our
folder as the first of PYTHONPATH, since they must find this module, and learn from it whether the folder stays.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_FOLDER = str(Path(__file__).parents[3])
_NAMES = ("aggregator", "devices", "profiles", "run_testbed", "testbed")
_OWN_FILES = tuple(f"{_FOLDER}/{name}{end}" for name in _NAMES for end in ("/", ".py"))


class OwnPackages:
    """A finder of our packages."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [_FOLDER]) if name in _NAMES else None


def has_file(path: str) -> bool:
    """Whether a file belongs to our packages."""
    return path.startswith(_OWN_FILES)


def is_on_path() -> bool:
    """Whether our folder is on the import path of this process, as it is where our packages are installed."""
    return any(_is_ours(path) for path in sys.path if path)


def confine(*, stays: bool = False) -> None:
    """Exchange our folder, if it is the first on the import path, for the finder. Call it before other imports.

    ``stays``: our folder is on the path for other reasons, too, and only loses its place before all others.
    """
    if sys.path and sys.path[0] and _is_ours(sys.path[0]):
        folder = sys.path.pop(0)
        if stays and not is_on_path():
            sys.path.append(folder)
        sys.meta_path.insert(0, OwnPackages)


def _is_ours(path: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(_FOLDER)
