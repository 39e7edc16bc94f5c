"""Descriptions of data sets: their files, where these come from, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from testbed.common.progress_protocol import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A file that can be downloaded. Its checksum is required to verify the download."""

    name: str
    md5: str
    urls: tuple[str, ...]
    """Mirrors, the best first."""
    optional: str = ""
    """What the file contains, if the data set can be used without it; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Arrays by their names in the cache: ``train_inputs``, ``train_targets``, ``train_owners`` …

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
    """Names of required files that are missing; then the files cannot be parsed."""
    lacking: tuple[str, ...] = ()
    """Names of optional files that are missing and that contain the owners of the samples."""
    state: str = ""
    """What else the arrays depend on: how the files of a user are read."""
    parse: Callable[[Progress], Parsed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One data set."""

    name: str
    title: str
    licence: str
    citation: str
    megabytes: int
    """Approximate size of the download."""
    folders: tuple[str, ...]
    """Folders in which its files may be; downloads go into the first."""
    find: Callable[[Path], FoundFiles | None]
    """Returns the files in a folder; None if there are none."""
    remotes: tuple[Remote, ...] = ()
    by_hand: str = ""
    """How to obtain it if there is no download; ``{folder}`` stands for the destination."""
    also: str = ""
    """Another way to obtain it, added to the error about a failed download."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def best(layouts: Iterable[FoundFiles | None]) -> FoundFiles | None:
    """Return the first that is complete, else the first that has any files."""
    found = [layout for layout in layouts if layout is not None]
    return next((layout for layout in found if not layout.missing), found[0] if found else None)
