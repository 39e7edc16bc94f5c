"""Huge pages for the memory of the template."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from testbed.host.memory import huge_pages

_SIZE = 16 << 20


def huge_bytes() -> int:
    """Bytes of anonymous memory in huge pages, of this process."""
    [line] = [line for line in Path("/proc/self/smaps_rollup").read_text().splitlines() if "AnonHugePages" in line]
    return int(line.split()[1]) << 10


def in_child(work: object) -> int:
    """Run ``work`` in a forked child, which collapses its own memory and not that of the tests; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()  # type: ignore[operator]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_private_memory_becomes_huge_pages_and_keeps_its_contents() -> None:
    def work() -> int:
        memory = mmap.mmap(-1, _SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pattern = bytes(range(256)) * (_SIZE // 256)
        memory[:] = pattern
        if huge_pages.collapse() == 0:
            return 77
        return 0 if memory[:] == pattern and huge_bytes() >= _SIZE // 2 else 1

    code = in_child(work)
    if code == 77:
        pytest.skip("this kernel collapses no memory (MADV_COLLAPSE needs Linux 6.1)")
    assert code == 0


def test_a_kernel_that_cannot_collapse_leaves_the_memory_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_MADV_COLLAPSE", 9999)
    assert huge_pages.collapse() == 0
