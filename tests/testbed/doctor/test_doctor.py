from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.doctor import checks
from testbed.host import survey_memory
from testbed.host.survey_memory import SurveyTimes


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
        (700 + 7 * 30, False, "about 7 devices"),
        (700 + 8 * 30, True, "about 8 devices"),
    ],
)
def test_memory_is_counted_in_devices(monkeypatch: pytest.MonkeyPatch, megabytes: int, ok: bool, means: str) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=megabytes << 20))
    finding = findings()["memory"]
    assert finding.ok is ok
    assert means in finding.means


def test_the_file_of_remembered_surveys_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    survey_memory.keep("mine", SurveyTimes(measured_at=survey_memory.now()))
    finding = findings()["surveys"]
    assert finding.found == "1 remembered"
    assert str(tmp_path / "edgebed" / "surveys.json") in finding.means
