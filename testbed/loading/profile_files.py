"""Profiles as files: those that ship with the project, by name, and the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from testbed.common.errors import ProfileError, UserError, nearest
from testbed.common.parameters import build

SHIPPED = Path(__file__).parents[2] / "profiles"


T = TypeVar("T")


def located(path: Path) -> Path:
    """The file of an experiment; one that ships with the project is found by its name."""
    name = path.parent / path.stem
    if any(name == shipped for shipped in _experiments()) and not path.exists():
        return SHIPPED / "experiments" / name.with_suffix(".toml")
    return path


def _experiments() -> Iterator[Path]:
    """Without their suffix; those of a paper lie in a folder of its own."""
    folder = SHIPPED / "experiments"
    return (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.toml"))


def named(cls: type[T], kind: str, name: str, source: str, key: str, folder: Path) -> T:
    """A device or link profile by catalogue name, or by path relative to the experiment."""
    path = file_of(kind, name, source, key, folder)
    return build(cls, read_toml(path), str(path))


def file_of(kind: str, name: str, source: str, key: str, folder: Path) -> Path:
    if name.endswith(".toml"):
        path = folder / name
        if not is_file(path):
            raise ProfileError(source, key, f"is {name!r}; there is no file {path}")
        return path
    if name not in catalogue(kind):
        raise ProfileError(source, key, f"is {name!r}; {nearest(name, catalogue(kind))}")
    return SHIPPED / kind / f"{name}.toml"


def catalogue(kind: str) -> list[str]:
    """Names of the profiles of a kind (devices, links, experiments) that ship with the project."""
    return sorted(path.stem for path in (SHIPPED / kind).glob("*.toml"))


def read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        named = path.stem if path.is_absolute() else path.with_suffix("").as_posix()
        hint = nearest(named, sorted(shipped.as_posix() for shipped in _experiments()))
        raise UserError(f"{path}: no such file; experiments that ship with the project: {hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # tomllib lets int() and the stack complain in their own words
        raise UserError(f"{path}: not valid TOML: {error}") from None


def is_file(path: Path) -> bool:
    return exists(path) and path.is_file()


def exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long, a folder that may not be entered
        return False
