"""Downloads: into a file with the suffix .part until it is complete and its checksum is right."""

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

from testbed.common.progress_protocol import Progress
from testbed.learning.data.readers.source import Remote

_TIMEOUT = 30.0
_CHUNK = 1 << 18
_ATTEMPTS = 3


class DownloadFailed(Exception):
    """A file could not be downloaded; the text says from where, and why."""


def fetch(remote: Remote, folder: Path, progress: Progress) -> Path:
    """Download the file into the folder and return its path. A partial download is continued. Raises DownloadFailed.

    The .part is locked during the download: a second process waits and then finds the complete file. Its modification
    time is that of the last attempt, see :func:`tried`.
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
    """Return the seconds since the last failed attempt, by the clock of the file system; None if there was none."""
    try:
        before = (folder / f"{remote.name}.part").stat().st_mtime
    except FileNotFoundError:
        return None
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime - before


def _from(url: str, remote: Remote, file: IO[bytes], progress: Progress) -> str | None:
    """Download from one address. Return the reason of a failure; None on success."""
    reason = "no data received"
    for _ in range(_ATTEMPTS):
        before = file.seek(0, os.SEEK_END)
        try:
            _receive(url, remote, file, progress)
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP {error.code} {error.reason}"
        except (http.client.HTTPException, OSError) as error:  # the received part is kept and continued
            reason = _reason(error)
            if file.seek(0, os.SEEK_END) <= before:
                return reason
            continue
        found = _md5(file)
        if found == remote.md5:
            return None
        # the content is wrong: discard it; if it continued an older .part, that may be the cause, so try again
        file.truncate(0)
        reason = f"its md5 is {found} instead of {remote.md5}"
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
        error.close()  # the .part has all bytes, or more; the checksum decides
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
    """Return whether the response continues at byte ``done``; a server may also send the whole file."""
    given = re.match(r"bytes (\d+)-", response.headers.get("Content-Range") or "")
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and given is not None and int(given[1]) == done


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(reason).__name__


def _md5(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
