"""The documents name only files that exist, and the architecture has every room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_layering import ROOMS, ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = ("testbed/", "aggregator/", "devices/", "tests/")
"""A path in backquotes that begins like this is a file or a folder of the repository."""


def names(documents: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in documents]


@pytest.mark.parametrize("document", DOCUMENTS, ids=names(DOCUMENTS))
def test_links_lead_to_files(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    missing = [name for name in targets if "://" not in name and not (document.parent / name).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=names(DOCUMENTS))
def test_named_files_exist(document: Path) -> None:
    named = re.findall(r"`([a-z_]+/[\w/.*-]+)`", document.read_text(encoding="utf-8"))
    missing = [name for name in named if name.startswith(CODE) and not list(ROOT.glob(name))]
    assert not missing


def test_the_architecture_has_a_line_for_each_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = [line.partition(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    rooms = {room for line in lines for room in re.findall(r"`([a-z_/]+)`", line)}
    assert rooms == {room.replace(".", "/") for room in ROOMS} - {"testbed"}
