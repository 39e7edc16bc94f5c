"""Finds the modules of a user: those that a profile names (``module:Class``), and what these import beside them.

Theory of operation. A user's modules are in the current folder or beside the profile. These folders are not on the
import path, on which every import of every library would look into them. Libraries import modules that need not exist,
``opt_einsum`` by torch for instance, and a file of this name in the folder in which somebody happens to start a run
would be executed. Instead, this finder is asked after all others. It looks into the folders

- for a module that a profile names, and
- for an import statement in a module that it has found itself, at any time: a user's module may import its neighbours
  at its top or in a function that is called hours later, in any process of the run.

For all other imports it finds nothing. Who asks is read from the stack: it is the first frame that does not belong to
the import system. The folders at the end of the import path instead would not do: an absent optional module would be
found there. Nor would the folders only while the named module is imported: what it imports later would be missing, and
what libraries import meanwhile, because of it, would be looked for there.

Limit. A neighbour that only a library asks for is not found: a module that a pickle names when a library unpickles it,
or that a new interpreter needs (multiprocessing with ``spawn``), in which there is no finder. From here it cannot be
distinguished from a module that need not exist. A user imports such a neighbour in the named module: all processes of
the run have it then. For ``spawn``, its folder must be on PYTHONPATH.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType

_IMPORT_SYSTEM = {"importlib", "_frozen_importlib", "_frozen_importlib_external"}


class UserModules:
    """A finder of a user's modules."""

    def __init__(self) -> None:
        self._folders: tuple[str, ...] = ()
        self._named: set[str] = set()
        """Modules that a profile names; of ``package.module`` the package."""
        self._found: set[str] = set()
        """Modules and packages that were found here: they may import others from here."""

    @property
    def folders(self) -> tuple[str, ...]:
        return self._folders

    def search_in(self, *folders: Path) -> None:
        """Look for a user's modules in these folders, and then in those of earlier calls."""
        places = dict.fromkeys(str(folder.resolve()) for folder in folders)
        self._folders = tuple(places | dict.fromkeys(self._folders))

    def allow(self, module: str) -> None:
        """Let a module that a profile names be imported by any code."""
        self._named.add(_top(module))
        if self not in sys.meta_path:
            sys.meta_path.append(self)  # after all others: a user's module cannot take the place of another

    def has_found(self, module: str) -> bool:
        """Whether a profile names this module or its package, or it was found for one of those."""
        return _top(module) in self._named | self._found

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None:  # part of a package that was found already
            return None
        if name not in self._named and _importer(sys._getframe(1)) not in self._found:
            return None
        spec = PathFinder.find_spec(name, self._folders)
        if spec is not None:
            self._found.add(name)
        return spec


def _importer(frame: FrameType | None) -> str:
    """Return the top-level module whose code asks for an import; empty if there is none."""
    while frame is not None:
        name = _top(str(frame.f_globals.get("__name__", "")))
        if name not in _IMPORT_SYSTEM:
            return name
        frame = frame.f_back
    return ""


def _top(module: str) -> str:
    return module.partition(".")[0]


FINDER = UserModules()
"""That of this process."""
