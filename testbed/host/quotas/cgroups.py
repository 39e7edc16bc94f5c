"""The control groups of a run, version 1 and 2: finding the hierarchy, making and removing groups.

The groups of a run are below the group of the launcher: ``edgebed-<launcher>/device-<n>``. Version 2 needs one more,
``edgebed-<launcher>-rest``: a group whose subgroups have quotas may not contain processes itself, so all processes of
the launcher's group move there.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from testbed.common.errors import UserError
from testbed.host.quotas import cgroup_files as files
from testbed.host.quotas.cgroup_files import CHILDREN, PACE, GroupBusy, QuotasUnavailable, or_unavailable, remedy
from testbed.host.quotas.cpu_quota import CpuQuota, limits

_OURS = re.compile(r"edgebed-(\d+)(-rest)?")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The hierarchy with the cpu controller, and the group in it that contains the groups of runs."""

    version: int
    group: Path

    def make_parent(self, launcher: int) -> CgroupParent:
        """Make the parent of the devices' groups. If that fails, remove what was made and raise QuotasUnavailable."""
        path = self.group / f"edgebed-{launcher}"
        with or_unavailable(self.version):
            files.remove(path)  # a dead launcher with the same pid may have left it
            try:
                path.mkdir()
                if self.version == 2:
                    self._enable_cpu(path)
            except OSError:
                with contextlib.suppress(OSError, GroupBusy):
                    files.remove(path)
                    restore(self)
                raise
        return CgroupParent(self, path)

    def _enable_cpu(self, path: Path) -> None:
        """Enable the cpu controller for the groups in ``path``.

        Processes move first. The kernel would also enable cpu for a group that contains processes, but it then makes
        the group the root of a threaded subtree, whose subgroups refuse every process. Only the root of the whole
        hierarchy (which has no cgroup.type) may have both. ``path`` exists already, so another launcher does not
        restore the group meanwhile.
        """
        if (self.group / "cgroup.type").exists() and files.pids(self.group):
            rest = path.with_name(f"{path.name}-rest")
            rest.mkdir(exist_ok=True)
            files.move_all(self.group, rest)
        files.write(self.group / CHILDREN, "+cpu")
        files.write(path / CHILDREN, "+cpu")


class CgroupParent:
    """The parent group of one run; closing it removes all groups of the run."""

    def __init__(self, hierarchy: Hierarchy, path: Path) -> None:
        self.hierarchy, self.path = hierarchy, path
        self._made = 0

    def quota(self, name: str, share: float, *, period_us: int = 20_000) -> CpuQuota:
        """Make a group for the device ``name``, limited to ``share`` of one core."""
        limits(share, period_us)  # refuse before a group is made
        path = self.path / f"device-{self._made}"  # a device may have any name, even that of a control file
        with or_unavailable(self.hierarchy.version):
            path.mkdir()
        self._made += 1
        quota = CpuQuota(name, path, self.hierarchy.version, period_us)
        try:
            quota.set(share)
        except UserError:
            quota.close()
            raise
        return quota

    def close(self) -> None:
        """Remove the groups and move processes back that had to leave the launcher's group. May be called twice."""
        with or_unavailable(self.hierarchy.version):
            try:
                files.remove(self.path)
            finally:
                restore(self.hierarchy)

    def __enter__(self) -> CgroupParent:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # an earlier exception must reach the user; the next sweep removes groups that are left
        with contextlib.suppress(UserError) if kind else contextlib.nullcontext():
            self.close()


def find(mounts: Path = Path("/proc/self/mounts"), membership: Path = Path("/proc/self/cgroup")) -> Hierarchy:
    """The hierarchy with the cpu controller. There is only one: on a hybrid host, version 1.

    Raises QuotasUnavailable if there is none.
    """
    try:
        rows = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
        ours = [line.split(":", 2) for line in membership.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        problem = f"no CPU quotas: {error.filename}: {error.strerror}; they need Linux: {PACE}"
        raise QuotasUnavailable(problem) from error
    without = ""
    for _, place, kind, options, *_ in rows:
        if kind == "cgroup" and "cpu" in options.split(","):
            return Hierarchy(1, _own_group(place, [path for _, names, path in ours if "cpu" in names.split(",")]))
        if kind == "cgroup2":
            group = _own_group(place, [path for number, _, path in ours if number == "0"])
            with or_unavailable(2):
                offered = files.read(group / "cgroup.controllers")
            if "cpu" in offered.split():
                return Hierarchy(2, group)
            without = f"{group}/cgroup.controllers offers no cpu (but: {offered or 'nothing'}); {remedy(2)}"
    raise QuotasUnavailable(
        f"no CPU quotas: {without or f'no cgroup hierarchy with the cpu controller is mounted; {PACE}'}"
    )


def _own_group(place: str, paths: list[str]) -> Path:
    mount = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place))
    for path in paths:
        group = mount / path.lstrip("/")
        # in a container the path may be that of the host, or point outside of what is mounted here
        if ".." not in group.parts and group.is_dir():
            ours = _OURS.fullmatch(group.name)
            return group.parent if ours and ours[2] else group  # another launcher moved this process into its rest
    return mount


def sweep(hierarchy: Hierarchy) -> list[str]:
    """Remove the empty groups of launchers that were killed; returns the names of the removed groups."""
    removed = []
    with contextlib.suppress(OSError):  # a group that cannot be removed must not prevent a run
        for group in files.subgroups(hierarchy.group):
            ours = _OURS.fullmatch(group.name)
            if ours and not ours[2] and not _is_alive(int(ours[1])):
                with contextlib.suppress(OSError, GroupBusy):
                    files.remove(group, looks=1)
                    removed.append(group.name)
        with contextlib.suppress(GroupBusy):
            restore(hierarchy)
    return removed


def restore(hierarchy: Hierarchy) -> None:
    """Move processes back from the ``-rest`` groups, unless another launcher still has quotas here."""
    ours = [(group, _OURS.fullmatch(group.name)) for group in files.subgroups(hierarchy.group)]
    rests = [group for group, match in ours if match and match[2]]
    if not rests or any(match and not match[2] for _, match in ours):
        return  # without a rest the group contained no processes, and cpu may stay enabled
    if "cpu" in files.read(hierarchy.group / CHILDREN).split():
        files.write(hierarchy.group / CHILDREN, "-cpu")
    for rest in rests:
        files.move_all(rest, hierarchy.group)
        files.remove(rest)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
