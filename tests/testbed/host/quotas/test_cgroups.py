"""Quotas: version 1 on the real kernel if it is writable, version 2 on a tree of plain files."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.common.errors import UserError
from testbed.host.quotas import cgroup_files
from testbed.host.quotas.cgroup_files import GroupBusy, QuotasUnavailable
from testbed.host.quotas.cgroups import CgroupParent, Hierarchy, find, sweep
from testbed.host.quotas.cpu_quota import CpuQuota, QuotaMismatch, limits

SCOPE = "user.slice/run-1.scope"
PACE = 'use throttle = "pace", which needs no quota'
MKDIR, RMDIR = Path.mkdir, Path.rmdir


class Version2:
    """Imitates what the kernel does with the files of version 2, and records all writes."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount
        self.written: list[tuple[str, str]] = []
        self.refuse: dict[str, OSError] = {}
        self.alter: Callable[[str], str] = str

    def make(self, group: Path, controllers: str = "cpu memory") -> Path:
        MKDIR(group)
        for name, text in {"cgroup.controllers": controllers, "cgroup.procs": "", "cgroup.subtree_control": ""}.items():
            (group / name).write_text(text)
        if group != self.mount:
            (group / "cgroup.type").write_text("domain")
            if "cpu" in (group.parent / "cgroup.subtree_control").read_text():
                (group / "cpu.max").write_text("max 100000")
                (group / "cpu.stat").write_text("usage_usec 7\nnr_throttled 2\nthrottled_usec 1500000\n")
        return group

    def rmdir(self, group: Path) -> None:
        if (group / "cgroup.procs").read_text() or any(path.is_dir() for path in group.iterdir()):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(group))
        shutil.rmtree(group)

    def write(self, path: Path, text: str) -> None:
        name = path.relative_to(self.mount).as_posix()
        if name in self.refuse:
            raise self.refuse[name]
        self.written.append((name, text))
        children = path.parent / "cgroup.subtree_control"
        root = path.parent == self.mount
        if path.name == "cgroup.procs":
            if children.read_text() and not root:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
            for file in self.mount.rglob("cgroup.procs"):
                pids = [pid for pid in file.read_text().split() if pid != text]
                file.write_text("\n".join([*pids, text] if file == path else pids))
        elif path == children:
            assert text == "-cpu" or root or not self.pids(path.parent), (
                "cpu was enabled for a group that contains processes"
            )
            path.write_text("cpu" if text == "+cpu" else "")
        else:
            assert path.exists()
            path.write_text(self.alter(text))

    def pids(self, group: Path) -> list[str]:
        return (group / "cgroup.procs").read_text().split()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Version2:
    kernel = Version2(tmp_path / "cgroup two")

    def mkdir(path: Path, *args: Any, **options: Any) -> None:
        kernel.make(path) if kernel.mount in path.parents else MKDIR(path, *args, **options)

    def rmdir(path: Path) -> None:
        kernel.rmdir(path) if kernel.mount in path.parents and path.exists() else RMDIR(path)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)
    monkeypatch.setattr(cgroup_files, "write", kernel.write)
    monkeypatch.setattr(cgroup_files, "_LOOK_SECONDS", 0.0)
    for group in (kernel.mount, kernel.mount / "user.slice", kernel.mount / SCOPE):
        kernel.make(group)
    (kernel.mount / SCOPE / "cgroup.procs").write_text("100\n101\n")
    return kernel


def found(tmp_path: Path, mounts: str, membership: str) -> Hierarchy:
    (tmp_path / "mounts").write_text(mounts)
    (tmp_path / "membership").write_text(membership)
    return find(tmp_path / "mounts", tmp_path / "membership")


def mounted(kernel: Version2) -> str:
    return (
        f"proc /proc proc rw 0 0\ncgroup2 {str(kernel.mount).replace(' ', chr(92) + '040')} cgroup2 rw,nsdelegate 0 0\n"
    )


@pytest.fixture
def scope(kernel: Version2) -> Hierarchy:
    return Hierarchy(2, kernel.mount / SCOPE)


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize("options", ["rw,cpu", "rw,cpu,cpuacct", "rw,cpuacct,cpu"])
def test_a_hybrid_host_has_its_quotas_in_version_1(tmp_path: Path, options: str) -> None:
    (tmp_path / "cpu/ours").mkdir(parents=True)
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("hugetlb\n")
    mounts = "".join(
        f"x {tmp_path}/{place} {kind} {words} 0 0\n"
        for place, kind, words in [
            ("unified", "cgroup2", "rw"),
            ("cpuset", "cgroup", "rw,cpuset"),
            ("cpu", "cgroup", options),
        ]
    )
    names = options.removeprefix("rw,")
    assert found(tmp_path, mounts, f"3:cpuset:/a\n1:{names}:/ours\n0::/b\n") == Hierarchy(1, tmp_path / "cpu/ours")


@pytest.mark.parametrize(
    ("path", "group"),
    [
        (f"/{SCOPE}", SCOPE),
        ("/", ""),
        ("/docker/of-the-host", ""),
        ("/../../user.slice", ""),
        (f"/{SCOPE}/edgebed-7-rest", SCOPE),
    ],
)
def test_the_own_group_is_found_below_the_mount(kernel: Version2, tmp_path: Path, path: str, group: str) -> None:
    kernel.make(kernel.mount / SCOPE / "edgebed-7-rest")
    assert found(tmp_path, mounted(kernel), f"0::{path}\n") == Hierarchy(2, kernel.mount / group)


def test_a_system_that_is_not_linux_has_no_quotas(tmp_path: Path) -> None:
    with pytest.raises(
        QuotasUnavailable, match="/mounts: No such file or directory; they need Linux: use throttle"
    ) as caught:
        find(tmp_path / "mounts", tmp_path / "membership")
    assert PACE in str(caught.value)


@pytest.mark.parametrize("mounts", ["", "proc /proc proc rw 0 0\ncgroup /x cgroup rw,cpuset,cpuacct 0 0\n"])
def test_a_host_without_the_cpu_controller_has_no_quotas(tmp_path: Path, mounts: str) -> None:
    with pytest.raises(QuotasUnavailable, match=f"no cgroup hierarchy with the cpu controller is mounted; {PACE}"):
        found(tmp_path, mounts, "0::/\n")


@pytest.mark.parametrize(
    ("user", "remedy"), [(0, "with systemd-run --scope"), (7, "as root, or with systemd-run --user")]
)
def test_a_group_without_the_cpu_controller_has_no_quotas(
    kernel: Version2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, remedy: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    (kernel.mount / SCOPE / "cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(
        QuotasUnavailable, match=rf"1.scope/cgroup.controllers offers no cpu \(but: memory pids\).*{remedy}"
    ):
        found(tmp_path, mounted(kernel), f"0::/{SCOPE}\n")


def test_processes_are_moved_before_cpu_is_enabled_and_moved_back_at_the_end(
    kernel: Version2, scope: Hierarchy
) -> None:
    parent = scope.make_parent(7)
    assert kernel.written == [
        (f"{SCOPE}/edgebed-7-rest/cgroup.procs", "100"),
        (f"{SCOPE}/edgebed-7-rest/cgroup.procs", "101"),
        (f"{SCOPE}/cgroup.subtree_control", "+cpu"),
        (f"{SCOPE}/edgebed-7/cgroup.subtree_control", "+cpu"),
    ]
    parent.close()
    parent.close()
    assert kernel.written[4:] == [
        (f"{SCOPE}/cgroup.subtree_control", "-cpu"),
        (f"{SCOPE}/cgroup.procs", "100"),
        (f"{SCOPE}/cgroup.procs", "101"),
    ]
    assert not [path for path in scope.group.iterdir() if path.is_dir()]


def test_in_the_root_of_the_hierarchy_no_process_is_moved(kernel: Version2) -> None:
    (kernel.mount / "cgroup.procs").write_text("1\n")
    with Hierarchy(2, kernel.mount).make_parent(7):
        assert kernel.written == [("cgroup.subtree_control", "+cpu"), ("edgebed-7/cgroup.subtree_control", "+cpu")]
    assert len(kernel.written) == 2
    assert not (kernel.mount / "edgebed-7").exists()


def test_the_last_of_two_launchers_moves_the_processes_back(kernel: Version2, scope: Hierarchy) -> None:
    first, second = scope.make_parent(7), scope.make_parent(8)
    first.close()
    assert kernel.pids(scope.group / "edgebed-7-rest") == ["100", "101"]
    second.close()
    assert kernel.pids(scope.group) == ["100", "101"]


def test_a_process_of_another_namespace_is_not_mistaken_for_this_one(kernel: Version2, scope: Hierarchy) -> None:
    (scope.group / "cgroup.procs").write_text("0\n100\n")
    with pytest.raises(QuotasUnavailable, match=r"run-1.scope: its processes cannot be moved; .*systemd-run"):
        scope.make_parent(7)
    assert "0" not in [text for _, text in kernel.written]
    assert kernel.pids(scope.group) == ["0", "100"]
    assert not [path for path in scope.group.iterdir() if path.is_dir()]


@pytest.mark.parametrize("file", ["edgebed-7-rest/cgroup.procs", "cgroup.subtree_control"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_parent_group_that_cannot_be_made_leaves_nothing(
    kernel: Version2, scope: Hierarchy, monkeypatch: pytest.MonkeyPatch, file: str, number: int
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    name = f"{SCOPE}/{file}"
    kernel.refuse[name] = OSError(number, os.strerror(number), name)
    with pytest.raises(QuotasUnavailable) as caught:
        scope.make_parent(7)
    assert str(caught.value) == (
        f"no CPU quotas: {name}: {os.strerror(number)}; run as root, or with systemd-run --user --scope"
        f" -p Delegate=yes <command>, or {PACE}"
    )
    assert kernel.pids(scope.group) == ["100", "101"]
    assert not [path for path in scope.group.iterdir() if path.is_dir()]


def test_a_limit_is_written_to_cpu_max_and_can_be_changed(kernel: Version2, scope: Hierarchy) -> None:
    with scope.make_parent(7) as parent:
        quota = parent.quota("pi 4 #1: ü\n..", 0.25)
        assert kernel.written[-1] == (f"{SCOPE}/edgebed-7/device-0/cpu.max", "5000 20000")
        assert quota.share == 0.25
        quota.set(0.01)
        assert kernel.written[-1][1] == "1000 100000"
        assert quota.share == 0.01
        quota.add(100)
        assert kernel.pids(parent.path / "device-0") == ["100"]
        assert quota.throttled_seconds() == 1.5
        assert parent.quota("cpu.max", 1).path.name == "device-1"
        kernel.write(scope.group / "edgebed-7-rest/cgroup.procs", "100")


def test_a_limit_that_the_kernel_changed_is_an_error(kernel: Version2, scope: Hierarchy) -> None:
    kernel.alter = lambda text: "max 20000"
    with scope.make_parent(7) as parent:
        with pytest.raises(
            QuotaMismatch, match=r"5000 us of CPU time every 20000 us for 'pi', .* reports max every 20000"
        ):
            parent.quota("pi", 0.25)
        assert not (parent.path / "device-0").exists()


def test_a_process_that_the_kernel_did_not_move_is_an_error(
    kernel: Version2, scope: Hierarchy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scope.make_parent(7) as parent:
        quota = parent.quota("pi", 0.25)
        with monkeypatch.context() as patch:
            patch.setattr(cgroup_files, "write", lambda path, text: None)
            with pytest.raises(QuotaMismatch, match=r"asked for process 100 of 'pi' to be in it, .* it is empty"):
                quota.add(100)


def test_a_group_that_stays_busy_is_named_with_its_processes(kernel: Version2, scope: Hierarchy) -> None:
    parent = scope.make_parent(7)
    parent.quota("pi", 0.25).add(100)
    with pytest.raises(
        GroupBusy, match=r"edgebed-7: cannot be removed, it still contains processes \(100\) after .* end"
    ):
        parent.close()
    with pytest.raises(ZeroDivisionError), parent:  # an earlier exception is not hidden
        _ = 1 / 0


def test_the_groups_of_a_killed_launcher_are_removed_and_processes_moved_back(
    kernel: Version2, scope: Hierarchy
) -> None:
    dead = dead_pid()
    parent = scope.make_parent(dead)
    parent.quota("pi", 0.25)
    for strange in ("edgebed-x", f"edgebed-{dead}-y"):
        kernel.make(scope.group / strange)
    assert sweep(scope) == [f"edgebed-{dead}"]
    assert kernel.pids(scope.group) == ["100", "101"]
    assert sorted(path.name for path in scope.group.iterdir() if path.is_dir()) == [f"edgebed-{dead}-y", "edgebed-x"]


@pytest.mark.parametrize("share", [1, 0.999, 0.5, 1 / 3, 0.07, 0.05, 0.0499, 0.0123, 0.001])
@pytest.mark.parametrize("period", [1_000, 20_000, 100_000, 1_000_000])
def test_a_limit_is_exact_to_half_a_percent_and_accepted_by_the_kernel(share: float, period: int) -> None:
    quota, obtained = limits(share, period)
    assert quota >= 1000
    assert period <= obtained <= 1_000_000
    assert quota / obtained == pytest.approx(share, rel=0.005)


@pytest.mark.parametrize("share", [0, -1, 0.0009, 1.01, float("nan"), float("inf")])
def test_a_share_that_cannot_be_set_is_refused(share: float) -> None:
    with pytest.raises(UserError, match=rf"a CPU quota of {share} of a core cannot be set; use 0.001 to 1, or {PACE}"):
        limits(share, 20_000)


# ---- the real kernel

SPIN = """
import os, sys, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
sys.stdin.readline()
wall, cpu = time.monotonic(), time.process_time()
while time.monotonic() - wall < 2.0:
    pass
print((time.process_time() - cpu) / (time.monotonic() - wall))
"""


@pytest.fixture
def parent() -> Iterator[CgroupParent]:
    try:
        hierarchy = find()
        made = hierarchy.make_parent(os.getpid())
    except QuotasUnavailable as reason:
        pytest.skip(str(reason))
    with made:
        yield made
    assert not made.path.exists()


def obtained(quota: CpuQuota) -> float:
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        quota.add(child.pid)
        return float(child.communicate(b"\n")[0])


@pytest.mark.live
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_process_obtains_no_more_than_its_share_of_a_core(parent: CgroupParent, share: float) -> None:
    quota = parent.quota("spin", share)
    assert quota.share == share
    assert 0 < obtained(quota) / share < 1.03  # a busy host may give less, but never more
    quota.set(0.01)
    assert quota.share == 0.01
    quota.close()
    quota.close()
    assert not quota.path.exists()


@pytest.mark.live
@pytest.mark.timing
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_process_obtains_its_share_of_a_quiet_core(parent: CgroupParent, share: float) -> None:
    quota = parent.quota("spin", share)
    assert 0.97 < obtained(quota) / share < 1.03
    assert quota.throttled_seconds() > 0
    quota.close()


@pytest.mark.live
def test_a_process_that_has_ended_cannot_be_added(parent: CgroupParent) -> None:
    quota = parent.quota("gone", 0.5)
    with pytest.raises(ProcessLookupError):
        quota.add(dead_pid())


@pytest.mark.live
def test_a_group_is_removed_as_soon_as_its_process_is_reaped(parent: CgroupParent) -> None:
    quota = parent.quota("sleep", 0.5)
    child = subprocess.Popen(["sleep", "60"])
    quota.add(child.pid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cgroup_files, "_LOOK_SECONDS", 0.0)
        with pytest.raises(GroupBusy, match=str(child.pid)):
            quota.close()
    child.kill()
    child.wait()
    quota.close()
    assert not quota.path.exists()


@pytest.mark.live
def test_a_sweep_removes_the_groups_of_a_dead_launcher_and_keeps_those_of_a_living_one(parent: CgroupParent) -> None:
    dead = dead_pid()
    left = parent.hierarchy.make_parent(dead)
    left.quota("pi", 0.5)
    alive = parent.quota("pi", 0.5)
    assert f"edgebed-{dead}" in sweep(parent.hierarchy)
    assert not left.path.exists()
    assert alive.path.exists()
