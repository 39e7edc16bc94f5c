"""Folders with files of data sets: the user's own, the cache, and that of the system's packages."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.common.errors import UserError
from testbed.common.files.cache_folder import cache_folder

FOLDER = "EDGEBED_DATA"
HELP = f"folder with the files of data sets; else {FOLDER}, the user's cache, a download"
"""Help text of the option --data-dir."""
OFFLINE = "EDGEBED_OFFLINE"
SYSTEM = Path("/usr/share/datasets")
"""Folder of Debian's packages dataset-…."""


def cache() -> Path:
    """Return the cache folder of Edgebed, which also contains the calibration of the host and its surveys."""
    return cache_folder()


def downloads() -> Path:
    return cache() / "data"


def arrays() -> Path:
    return cache() / "arrays"


def given(data_dir: Path | None) -> Path | None:
    """Return the folder that the option or the environment names. Raises UserError if it does not exist."""
    origin = "--data-dir"
    if data_dir is None:
        named = os.environ.get(FOLDER)
        if not named:
            return None
        origin, data_dir = FOLDER, Path(named)
    if not data_dir.is_dir():
        raise UserError(
            f"{data_dir}: {origin} names this folder, but it does not exist; create it, or do not set {origin}"
        )
    return data_dir.resolve()


def offline() -> bool:
    return os.environ.get(OFFLINE, "") not in ("", "0")
