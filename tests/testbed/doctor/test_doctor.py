from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.doctor import checks
from testbed.host import survey_memory
from testbed.host.core_plan import roles_of
from testbed.host.priority import Policy
from testbed.host.survey_memory import SurveyTimes
from testbed.host.topology import Topology


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


def host(threads: bool = False, nodes: int = 1) -> Topology:
    """A host of six cores: three physical ones with two threads each if ``threads``."""
    siblings = {core: ((core + 3) % 6,) if threads else () for core in range(6)}
    return Topology(cores=tuple(range(6)), siblings=siblings, node={core: core % nodes for core in range(6)})


def about(topology: Topology, policy: Policy = Policy.REAL_TIME) -> dict[str, checks.HostFinding]:
    return {finding.what: finding for finding in checks._roles(roles_of(topology, policy), topology)}


def test_threads_and_memory_nodes_are_named_only_where_cores_share_them() -> None:
    assert set(about(host())) == {"core roles"}
    shared = about(host(threads=True, nodes=2))
    assert shared["SMT"].found == "6 threads on 3 physical cores"
    assert shared["SMT"].means == "core 2 stays free beside the aggregator"
    assert (shared["NUMA"].found, shared["NUMA"].means) == (
        "2 memory nodes",
        "devices use node 1, the aggregator's, first",
    )


@pytest.mark.parametrize(
    ("policy", "means"),
    [
        (Policy.REAL_TIME, "interrupts devices on its core (real-time)"),
        (Policy.SHORT_SLICE, "interrupts devices on its core (short slice)"),
        (Policy.NICE, "they share its core only if the profile says so"),
    ],
)
def test_how_the_aggregator_gets_its_core_is_explained(policy: Policy, means: str) -> None:
    assert means in about(host(), policy)["core roles"].means


def test_the_file_of_remembered_surveys_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    survey_memory.keep("mine", SurveyTimes(measured_at=survey_memory.now()))
    finding = findings()["surveys"]
    assert finding.found == "1 remembered"
    assert str(tmp_path / "edgebed" / "surveys.json") in finding.means
