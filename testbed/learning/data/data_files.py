"""Locates the files of a data set: in the user's folder, in the cache, in the system's folder; else downloads them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from testbed.common.errors import UserError
from testbed.common.progress_protocol import Progress
from testbed.learning.data import fetching, folders
from testbed.learning.data.readers.source import FoundFiles, Remote, Source, best

_PATIENCE = 86_400.0
"""Seconds until a failed download of an optional file is tried again: without a network, an attempt may be slow."""


def locate(source: Source, data_dir: Path | None, progress: Progress) -> FoundFiles:
    """Return the files of the first place that has the data set, or download them. Raises UserError.

    An incomplete data set in the user's own folder is an error: otherwise, data from another place would silently
    replace it. An incomplete one in the cache is a download that is continued.
    """
    given, downloads = folders.given(data_dir), folders.downloads()
    if given is not None:
        found = _in(source, given)
        if found is not None and found.missing:
            raise UserError(_incomplete(source, found))
        if found is not None:
            return found
    for place in (downloads, folders.SYSTEM):
        found = _in(source, place)
        if found is not None and not found.missing:
            return _completed(source, found, progress) if place == downloads else found
    return _downloaded(source, given, downloads, progress)


def owners_hint(source: Source, found: FoundFiles) -> str:
    """Return which files to add to know who made the samples; empty if that is known, or if no file contains it."""
    wanted = _lacking(source, found)
    return f"put {_listed(wanted)} into {found.folder} to know {wanted[0].optional}" if wanted else ""


def _lacking(source: Source, found: FoundFiles) -> list[Remote]:
    return [remote for remote in source.remotes if remote.name in found.lacking]


def _completed(source: Source, found: FoundFiles, progress: Progress) -> FoundFiles:
    """Try to download optional files that are missing. Without a network, return ``found`` unchanged."""
    wanted = _lacking(source, found)
    if not wanted or folders.offline():
        return found
    with contextlib.suppress(OSError):  # a shared cache may be read-only
        for remote in wanted:
            if _just_tried(remote, found.folder) or not _optional(source, remote, found.folder, progress):
                break
    return source.find(found.folder) or found


def _just_tried(remote: Remote, folder: Path) -> bool:
    ago = fetching.tried(remote, folder)
    return ago is not None and 0 <= ago < _PATIENCE


def _optional(source: Source, remote: Remote, folder: Path, progress: Progress) -> bool:
    """Download an optional file and return whether that succeeded. A failure is only a message to the user."""
    try:
        fetching.fetch(remote, folder, progress)
    except fetching.DownloadFailed as error:
        progress.show(f"{source.name}: {remote.name} ({remote.optional}) was not downloaded: {error}")
        return False
    return True


def _in(source: Source, place: Path) -> FoundFiles | None:
    return best(source.find(folder) for name in source.folders if (folder := place / name).is_dir())


def _incomplete(source: Source, found: FoundFiles) -> str:
    wanted = [remote for remote in source.remotes if remote.name in found.missing]
    origin = f" (from {_addresses(wanted)})" if wanted else ""
    verb, these = ("is", "it") if len(found.missing) == 1 else ("are", "them")
    names = _names(found.missing)
    return f"{found.folder}: {names} of {source.name} {verb} missing; put {these} there{origin}"


def _downloaded(source: Source, given: Path | None, downloads: Path, progress: Progress) -> FoundFiles:
    folder = downloads / source.folders[0]
    if not source.remotes:
        raise UserError(_absent(source, given, folder, "there is no download for it"))
    if folders.offline():
        raise UserError(_absent(source, given, folder, f"{folders.OFFLINE} forbids a download"))
    for remote in source.remotes:
        try:
            if remote.optional:
                _optional(source, remote, folder, progress)
            else:
                fetching.fetch(remote, folder, progress)
        except fetching.DownloadFailed as error:
            raise UserError(_absent(source, given, folder, f"it could not be downloaded ({error})")) from None
        except OSError as error:
            problem = f"cannot be written: {error.strerror}; free disk space, or set XDG_CACHE_HOME to another folder"
            raise UserError(f"{folder}: {problem}") from None
    found = _in(source, downloads)
    assert found is not None
    assert not found.missing, "a download is complete"
    return found


def _absent(source: Source, given: Path | None, folder: Path, reason: str) -> str:
    """Return an error that says which files to put where, for a user without a network."""
    where = given / source.folders[0] if given is not None else folder
    tail = "" if given is not None else f" (or into FOLDER/{source.folders[0]}, and use --data-dir FOLDER)"
    # some of the files may be there already
    wanted = [remote for remote in source.remotes if not (where / remote.name).is_file()]
    searched = ", ".join(str(place) for place in (given, folders.downloads()) if place is not None)
    problem = f"{source.name} is not in {searched}, and {reason}"
    if source.by_hand:
        return f"{problem}: {source.by_hand.format(folder=f'{where}{tail}')}"
    needed = [remote for remote in wanted if not remote.optional]
    optional = [remote for remote in wanted if remote.optional]
    more = f"; also, to know {optional[0].optional}, {_listed(optional)}" if optional else ""
    return f"{problem}: put {_listed(needed)} into {where}{tail}{more}{source.also}"


def _listed(remotes: list[Remote]) -> str:
    return f"{_names(remote.name for remote in remotes)} (from {_addresses(remotes)})"


def _addresses(remotes: list[Remote]) -> str:
    """Return the folder URLs of the files; the full URL of a file that has another name there."""
    found = []
    for remote in remotes:
        base, _, name = remote.urls[0].rpartition("/")
        found.append(f"{base}/" if name == remote.name else remote.urls[0])
    return ", ".join(dict.fromkeys(found))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
