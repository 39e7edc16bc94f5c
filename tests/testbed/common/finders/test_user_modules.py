"""Modules of a user are found for a profile and for each other, and for nobody else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.common.finders.user_modules import UserModules

NAMED = """
import importlib
import edgebed_neighbour
from edgebed_package.part import VALUE

def import_later():
    import edgebed_later
    return edgebed_later.VALUE

def import_by_name():
    return importlib.import_module("edgebed_by_name").VALUE
"""
LIBRARY = """
import pickle
try:
    import edgebed_optional
    FOUND = True
except ImportError:
    FOUND = False

def call(function):
    return function()

def import_later():
    import edgebed_optional

def unpickle(data):
    return pickle.loads(data)
"""
MODULES = {
    "edgebed_named.py": NAMED,
    "edgebed_neighbour.py": "import edgebed_library",
    "edgebed_later.py": "VALUE = 'later'",
    "edgebed_by_name.py": "VALUE = 'by name'",
    "edgebed_package/__init__.py": "",
    "edgebed_package/part.py": "import edgebed_of_package\nVALUE = 'part'",
    "edgebed_of_package.py": "",
    "edgebed_optional.py": "",
    "edgebed_spaces/inner.py": "VALUE = 'inner'",
}


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UserModules]:
    """A finder of modules in one folder; a library of the same user is installed in another."""
    for name, text in MODULES.items():
        (tmp_path / "user" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "user" / name).write_text(text, encoding="utf-8")
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "edgebed_library.py").write_text(LIBRARY, encoding="utf-8")
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "installed")])
    before = set(sys.modules)
    found = UserModules()
    found.search_in(tmp_path / "user")
    yield found
    for name in set(sys.modules) - before:
        if name.startswith("edgebed_"):
            del sys.modules[name]


def test_nothing_is_found_before_a_profile_names_a_module(finder: UserModules) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("edgebed_named")
    assert finder not in sys.meta_path


def test_a_named_module_imports_its_neighbours_and_a_library_does_not(finder: UserModules) -> None:
    finder.allow("edgebed_named")
    named = importlib.import_module("edgebed_named")
    assert named.VALUE == "part"
    assert sys.modules["edgebed_library"].FOUND is False
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("edgebed_optional")


def test_a_named_module_imports_its_neighbours_later_too(finder: UserModules) -> None:
    finder.allow("edgebed_named")
    named = importlib.import_module("edgebed_named")
    library = sys.modules["edgebed_library"]
    assert library.call(named.import_later) == "later"
    assert library.call(named.import_by_name) == "by name"
    with pytest.raises(ModuleNotFoundError):
        library.import_later()


def test_a_neighbour_that_a_pickle_names_for_a_library_must_have_been_imported_by_the_user(finder: UserModules) -> None:
    finder.allow("edgebed_named")
    named = importlib.import_module("edgebed_named")
    unpickle, data = sys.modules["edgebed_library"].unpickle, b"cedgebed_later\nVALUE\n."
    with pytest.raises(ModuleNotFoundError):
        unpickle(data)
    named.import_later()
    assert unpickle(data) == "later"


def test_a_module_in_a_folder_without_init_is_found(finder: UserModules) -> None:
    finder.allow("edgebed_spaces.inner")
    assert importlib.import_module("edgebed_spaces.inner").VALUE == "inner"


def test_a_module_that_is_installed_is_preferred_and_gets_nothing_from_the_users_folders(
    finder: UserModules, tmp_path: Path
) -> None:
    (tmp_path / "user" / "edgebed_library.py").write_text("FOUND = None", encoding="utf-8")
    finder.allow("edgebed_library")
    assert importlib.import_module("edgebed_library").FOUND is False


def test_the_folders_of_the_last_profile_come_first(finder: UserModules, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "edgebed_later.py").write_text("VALUE = 'other'", encoding="utf-8")
    finder.search_in(tmp_path / "other", tmp_path / "other")
    assert finder.folders == (str(tmp_path / "other"), str(tmp_path / "user"))
    finder.allow("edgebed_later")
    assert importlib.import_module("edgebed_later").VALUE == "other"
