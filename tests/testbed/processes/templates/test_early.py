"""When the root template is started early. Tests of the process itself are in tests/live/test_templates.py."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from testbed.processes.templates import early

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ("run quickstart", True),
        ("quickstart.toml --seconds 3", True),
        ("quickstart.toml", True),
        ("resume runs/x", True),
        ("plan quickstart", True),
        ("sweep quickstart --out runs/x", True),
        ("sweep quickstart --out runs/x --dry-run", False),
        ("run --help", False),
        ("run", False),
        ("list strategies", False),
        ("--version", False),
        ("", False),
    ],
)
def test_a_command_that_needs_templates_begins_early(words: str, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(early, "begin", lambda: begun.append(True))
    early.begin_for(words.split())
    assert bool(begun) is begins


def test_a_run_of_a_sweep_starts_no_root_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "_root", None)
    monkeypatch.setenv(early.SOCKET, "7")
    early.begin()
    assert early._root is None


def variables(pid: int) -> dict[str, str]:
    """The environment of a process that was just spawned: the kernel shows none until it has set up the program."""
    limit = time.monotonic() + 60
    while not (found := psutil.Process(pid).environ()) and time.monotonic() < limit:
        time.sleep(0.001)
    return found


@pytest.mark.parametrize("own", [None, "glibc.malloc.arena_max=1"])
def test_templates_have_a_compact_heap_unless_the_user_has_set_the_allocator(
    monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if own is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", own)
    early.begin()
    try:
        assert early._root is not None
        found = variables(early._root.pid)["GLIBC_TUNABLES"]
    finally:
        early.end()
    assert found == own if own else "tcache_count=0" in found
    assert "GLIBC_TUNABLES" not in early.settings()  # which programs of a user get, too


def test_the_descriptor_of_a_closed_stream_is_no_output_although_another_file_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "__stdout__", stream)
    assert early.is_output(1)
    stream.close()
    assert not early.is_output(1)


def test_it_imports_nothing_heavy() -> None:
    code = "import sys, testbed.processes.templates.early; sys.exit(len({'numpy', 'msgspec'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
