"""The cache folder of Edgebed: what can be computed, measured or downloaded again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "edgebed"
