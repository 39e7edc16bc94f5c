"""The fenced blocks of our documents, which tests run as they are."""

from __future__ import annotations

import re

from tests.live.runs import ROOT


def blocks(document: str, language: str, containing: str = "") -> list[str]:
    """Return the blocks in this language that contain a text. ``document``: its path in the repository."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [block for block in re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL) if containing in block]
