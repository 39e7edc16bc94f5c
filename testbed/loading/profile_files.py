"""Profiles as TOML files: those that ship with the project are found by name, the user's own by path."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from testbed.common.errors import ProfileError, UserError, nearest
from testbed.common.files.regular_file import read_at_most
from testbed.common.parameters import TomlTable, build

MOST_BYTES = 16 << 20
"""The largest profile: larger than one with 10,000 device groups and 10,000 events."""
SHIPPED = Path(__file__).parents[2] / "profiles"

T = TypeVar("T")


def catalogue(kind: str) -> list[str]:
    """Return the names of the profiles of a kind (devices, links, experiments) that ship with the project."""
    return sorted(path.stem for path in (SHIPPED / kind).glob("*.toml"))


def located(path: Path) -> Path:
    """Return the file of an experiment. The name of one that ships with the project is enough."""
    name = path.parent / path.stem
    if any(name == shipped for shipped in _experiments()) and not path.exists():
        return SHIPPED / "experiments" / name.with_suffix(".toml")
    return path


def named(cls: type[T], kind: str, name: str, source: str, key: str, folder: Path) -> T:
    """Load a device or link profile by catalogue name, or by path relative to ``folder``. Raises UserError."""
    path = file_of(kind, name, source, key, folder)
    return build(cls, read_toml(path), str(path))


def file_of(kind: str, name: str, source: str, key: str, folder: Path) -> Path:
    """Return the file of a device or link profile. Raises ProfileError if there is none."""
    if name.endswith(".toml"):
        path = folder / name
        if not exists(path) or not path.is_file():
            raise ProfileError(source, key, f"is {name!r}; there is no file {path}")
        return path
    if name not in catalogue(kind):
        raise ProfileError(source, key, f"is {name!r}; {nearest(name, catalogue(kind))}")
    return SHIPPED / kind / f"{name}.toml"


def read_toml(path: Path) -> TomlTable:
    """Return the tables of a TOML file. Raises UserError if it cannot be read."""
    try:
        return tomllib.loads(read_at_most(path, MOST_BYTES).decode())
    except FileNotFoundError:
        name = path.stem if path.is_absolute() else path.with_suffix("").as_posix()
        hint = nearest(name, sorted(shipped.as_posix() for shipped in _experiments()))
        raise UserError(f"{path}: no such file; experiments that ship with the project: {hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # tomllib does not convert all errors to its own
        raise UserError(f"{path}: not valid TOML: {error}") from None


def exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long, or a folder may not be entered
        return False


def _experiments() -> Iterator[Path]:
    """Yield the shipped experiments without suffix; those of a paper are in a folder."""
    folder = SHIPPED / "experiments"
    return (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.toml"))
