"""Names that are safe for files."""

from __future__ import annotations

import re


def file_name(name: str) -> str:
    """A name that is safe as that of a file."""
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII).lstrip(".")[:80] or "trace"
