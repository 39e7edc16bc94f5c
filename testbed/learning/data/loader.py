"""Loads data sets by name, as arrays that all processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from testbed.common.errors import UserError, nearest
from testbed.common.progress_protocol import NO_PROGRESS, Progress
from testbed.learning.data import cache
from testbed.learning.data.data_files import locate, owners_hint
from testbed.learning.data.data_sources import SOURCES
from testbed.learning.data.dataset import DataSet, Inputs, Subset
from testbed.learning.data.readers.shakespeare import LENGTH
from testbed.learning.data.readers.source import Source
from testbed.learning.data.windows import Windows


def load(name: str, data_dir: Path | None = None, progress: Progress = NO_PROGRESS) -> DataSet:
    """Return the data set of this name. Raises UserError.

    Its files are searched in ``data_dir`` (if None: in the folder that EDGEBED_DATA names), in the user's cache and in
    the system's folder; else they are downloaded into the cache. A text has a sample at every position: see
    :func:`testbed.learning.data.windows.every`.
    """
    source = SOURCES.get(name)
    if source is None:
        raise UserError(f"there is no data set {name!r}; {nearest(name, SOURCES)}")
    found = locate(source, data_dir, progress)
    return _data_set(source, cache.stored(name, found, progress), owners_hint(source, found))


def described() -> Iterator[tuple[str, str]]:
    """Yield the name of each data set and a line about it."""
    for name, source in SOURCES.items():
        size = f"about {source.megabytes} MB to download" if source.remotes else "to be made with LEAF"
        yield name, f"{source.title}; {size}; licence: {source.licence}; cite {source.citation}"


def _data_set(source: Source, stored: cache.Stored, owners_from: str) -> DataSet:
    return DataSet(
        train=_part(stored, "train", owners_from),
        test=_part(stored, "test", owners_from),
        classes=stored.classes,
        owners=stored.owners,
        mean=source.mean,
        std=source.std,
        sha256=stored.sha256,
    )


def _part(stored: cache.Stored, part: str, owners_from: str) -> Subset:
    arrays = stored.arrays
    inputs: Inputs
    if f"{part}_text" in arrays:
        inputs = Windows(arrays[f"{part}_text"], arrays[f"{part}_starts"], LENGTH)
    else:
        inputs = arrays[f"{part}_inputs"]
    targets, owners = arrays[f"{part}_targets"], arrays.get(f"{part}_owners")
    return Subset(inputs=inputs, targets=targets, owners=owners, owners_from=owners_from)
