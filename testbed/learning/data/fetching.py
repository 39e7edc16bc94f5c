"""Downloads: into a file that is called .part until all of it has come and its checksum is right."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import re
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

from testbed.common.progress import Progress
from testbed.learning.data.readers.source import Remote

_TIMEOUT = 30.0
_CHUNK = 1 << 18
_ATTEMPTS = 3


class DownloadFailed(Exception):
    """A file could not be had; the text says from where, and why."""


def fetch(remote: Remote, folder: Path, progress: Progress) -> Path:
    """The file, downloaded into the folder. What an attempt before left of it is gone on with.

    The .part is locked while somebody writes to it: who comes second waits, and finds the file finished. Its time says
    when the file was last asked for, see :func:`tried`.
    """
    target, part = folder / remote.name, folder / f"{remote.name}.part"
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with part.open("ab+") as file:
        progress.start(f"waiting for another download of {remote.name}")
        fcntl.flock(file, fcntl.LOCK_EX)
        if target.is_file():
            part.unlink(missing_ok=True)
            return target
        os.utime(file.fileno())
        reasons = []
        for url in remote.urls:
            reason = _from(url, remote, file, progress)
            if reason is None:
                os.fsync(file.fileno())
                part.replace(target)
                return target
            reasons.append(f"{url}: {reason}")
    raise DownloadFailed("; ".join(reasons))


def tried(remote: Remote, folder: Path) -> float | None:
    """How many seconds ago this file was asked for in vain; by the clock of the disk, as the .part's time is."""
    try:
        before = (folder / f"{remote.name}.part").stat().st_mtime
    except FileNotFoundError:
        return None
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime - before


def _from(url: str, remote: Remote, file: IO[bytes], progress: Progress) -> str | None:
    """Why it could not be had from there; None if it could."""
    reason = "nothing came"
    for _ in range(_ATTEMPTS):
        before = file.seek(0, os.SEEK_END)
        try:
            _receive(url, remote, file, progress)
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code} {error.reason}"
        except (http.client.HTTPException, OSError) as error:  # what has come stays, and is gone on with
            reason = _told(error)
            if file.seek(0, os.SEEK_END) <= before:
                return reason
            continue
        found = _md5(file)
        if found == remote.md5:
            return None
        # what came must not be built upon; what was built upon a part of something else is begun anew
        file.truncate(0)
        reason = f"what came has the md5 {found}, and not {remote.md5}"
        if not before:
            return reason
    return reason


def _receive(url: str, remote: Remote, file: IO[bytes], progress: Progress) -> None:
    done = file.seek(0, os.SEEK_END)
    request = urllib.request.Request(url, headers={"User-Agent": "edgebed"})  # noqa: S310 - addresses are our own
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        error.close()  # nothing is left to come: all of it is here, or more; the checksum tells
        return
    with response:
        if not _continues(response, done):
            done = 0
            file.truncate(0)
        length = response.headers.get("Content-Length")
        total = done + int(length) if length and length.isdigit() else None
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            progress.start(f"downloading {remote.name}", done, total)
    file.flush()
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _continues(response: http.client.HTTPResponse, done: int) -> bool:
    """Whether what comes begins where we stopped; a server may also send all of it."""
    given = re.match(r"bytes (\d+)-", response.headers.get("Content-Range") or "")
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and given is not None and int(given[1]) == done


def _told(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(reason).__name__


def _md5(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
