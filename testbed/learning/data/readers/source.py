"""What is known about a data set before it is read: its files, where they come from, what its numbers mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from testbed.common.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A file that can be downloaded. Without a known checksum it cannot: nobody could tell what came."""

    name: str
    md5: str
    urls: tuple[str, ...]
    """Mirrors, the best first."""
    optional: str = ""
    """What it tells, if the data set can be used without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Arrays by the names under which the cache keeps them: ``train_inputs``, ``train_targets``, ``train_owners`` …

    A text has ``train_text`` and ``train_starts`` instead of inputs.
    """

    arrays: dict[str, npt.NDArray[Any]]
    classes: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """Files of a data set in one folder."""

    folder: Path
    files: tuple[Path, ...]
    missing: tuple[str, ...] = ()
    """What is not there of what belongs to them; then they cannot be parsed."""
    lacking: tuple[str, ...] = ()
    """What is not there and would tell who made the samples; they can be parsed without it."""
    parse: Callable[[Progress], Parsed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One data set."""

    name: str
    title: str
    licence: str
    citation: str
    megabytes: int
    """To download, about."""
    folders: tuple[str, ...]
    """Where in a place its files may be; the first is where Edgebed puts them."""
    find: Callable[[Path], FoundFiles | None]
    """What a folder has of it; None if nothing."""
    remotes: tuple[Remote, ...] = ()
    by_hand: str = ""
    """How to get it where there is nothing to download; ``{folder}`` stands for where to put it."""
    also: str = ""
    """Another way to get it, told after the download."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def best(layouts: Iterable[FoundFiles | None]) -> FoundFiles | None:
    """The first that is complete, else the first that has anything."""
    found = [layout for layout in layouts if layout is not None]
    return next((layout for layout in found if not layout.missing), found[0] if found else None)
