from __future__ import annotations

from types import SimpleNamespace

import pytest

from testbed.doctor import checks


def findings() -> dict[str, checks.HostFinding]:
    return {finding.what: finding for finding in checks.examine()}


@pytest.mark.parametrize("what", ["cores", "affinity", "memory", "cgroup", "schedstat", "RAPL"])
def test_everything_that_a_run_may_use_is_checked_and_explained(what: str) -> None:
    finding = findings()[what]
    assert finding.found
    assert finding.means


def test_one_core_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert findings()["cores"].ok is False
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert findings()["cores"].ok is True


@pytest.mark.parametrize(
    ("megabytes", "ok", "means"),
    [
        (100, False, "about 0 devices"),
        (700 + 7 * 12, False, "about 7 devices"),
        (700 + 8 * 12, True, "about 8 devices"),
    ],
)
def test_memory_is_counted_in_devices(monkeypatch: pytest.MonkeyPatch, megabytes: int, ok: bool, means: str) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=megabytes << 20))
    finding = findings()["memory"]
    assert finding.ok is ok
    assert means in finding.means
