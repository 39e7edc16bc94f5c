"""Where files of data sets may be: the user's folder, the cache, and where the system's packages put them."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.common.errors import UserError

FOLDER = "EDGEBED_DATA"
HELP = f"folder with the files of data sets; else {FOLDER}, the user's cache, a download"
"""Of the option --data-dir."""
OFFLINE = "EDGEBED_OFFLINE"
SYSTEM = Path("/usr/share/datasets")
"""Where Debian's packages dataset-… install theirs."""


def cache() -> Path:
    """The cache folder of Edgebed, which keeps the calibration of the host, too."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "edgebed"


def downloads() -> Path:
    return cache() / "data"


def arrays() -> Path:
    return cache() / "arrays"


def given(data_dir: Path | None) -> Path | None:
    """The folder that the user names: the option, else the environment. One that does not exist is a mistake."""
    origin = "--data-dir"
    if data_dir is None:
        named = os.environ.get(FOLDER)
        if not named:
            return None
        origin, data_dir = FOLDER, Path(named)
    if not data_dir.is_dir():
        raise UserError(f"{data_dir}: {origin} names this folder, and there is none; make it, or leave {origin} out")
    return data_dir.resolve()


def offline() -> bool:
    return os.environ.get(OFFLINE, "") not in ("", "0")
