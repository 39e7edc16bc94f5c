"""Conversion of arbitrary names to file names."""

from __future__ import annotations

import re


def file_name(name: str) -> str:
    """Return ``name`` with unsafe characters replaced: at most 80 characters, no dot in front, never empty."""
    return re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII).lstrip(".")[:80] or "trace"
