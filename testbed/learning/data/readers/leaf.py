"""LEAF's JSON: folders ``train`` and ``test`` with files that contain ``users`` and, for each, samples x and labels y.

One user is decoded at a time: as Python objects, the numbers of a whole file need a hundred times the memory of its
images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from testbed.common.progress_protocol import Progress
from testbed.learning.data.readers import data_file
from testbed.learning.data.readers.source import FoundFiles, Parsed

T = TypeVar("T")
PARTS = ("train", "test")
Parts = dict[str, tuple[Path, ...]]
"""The files of each part."""


class _File(msgspec.Struct):
    users: list[str]
    user_data: dict[str, msgspec.Raw]


def find(folder: Path, parse: Callable[[Parts, Progress], Parsed]) -> FoundFiles | None:
    """Return the files of both parts. They may be in the subfolder ``data``, in which LEAF creates them."""
    for base in (folder, folder / "data"):
        parts = {part: tuple(sorted((base / part).glob("*.json"))) for part in PARTS}
        if any(parts.values()):
            paths = tuple(path for part in parts.values() for path in part)
            missing = tuple(f"{part}/*.json" for part in PARTS if not parts[part])
            return FoundFiles(folder=base, files=paths, missing=missing, parse=partial(parse, parts))
    return None


def samples(part: tuple[Path, ...], kind: type[T], progress: Progress) -> Iterator[tuple[Path, str, T]]:
    """Yield file, user and samples (as ``kind``) for each user of a part. Raises UserError."""
    for number, path in enumerate(part):
        progress.start(f"reading {path.parent.name}/{path.name}", number, len(part))
        decoded = _decode(path, data_file.unpacked(path), _File)
        for user in decoded.users:
            if user not in decoded.user_data:
                raise data_file.damaged(path, f"user {user!r} has no user_data")
            yield path, user, _decode(path, decoded.user_data[user], kind, f" of user {user!r}")


def _decode(path: Path, content: Any, kind: type[T], whose: str = "") -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise data_file.damaged(path, f"is not LEAF's JSON{whose}: {error}") from None
