"""CPU quotas for processes through the kernel's control groups, version 1 and 2; every limit is read back.

A run's groups stand below the group that the launcher is in: ``edgebed-<launcher>/device-<n>``. Version 2 has one more,
``edgebed-<launcher>-rest``: a group whose children have quotas may hold no process itself, so all move in there.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.common.errors import UserError

SMALLEST_SHARE = 0.001
_LEAST_US, _LONGEST_US = 1_000, 1_000_000  # the kernel takes no shorter quota or period, and no longer period
_LOOK_SECONDS, _LOOKS = 0.02, 100
_ROUNDS = 20
_OURS = re.compile(r"edgebed-(\d+)(-rest)?")
_PROCS, _CHILDREN = "cgroup.procs", "cgroup.subtree_control"
_PERIOD, _QUOTA, _MAX = "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.max"
_PACE = 'use throttle = "pace", which needs no quota'


class Unavailable(UserError):
    """Quotas cannot be had here; the text says why and what to do."""


class QuotaMismatch(UserError):
    """The kernel took a limit, or a process, but reads back something else."""


class GroupBusy(UserError):
    """A group could not be removed, because processes are still in it."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The hierarchy that has the cpu controller, and the group in it below which ours are made."""

    version: int
    group: Path

    def fence(self, launcher: int) -> CgroupParent:
        """Make the parent of the devices' groups. Nothing is left behind where that fails."""
        path = self.group / f"edgebed-{launcher}"
        with _or_unavailable(self.version):
            _remove(path)  # of a dead launcher that had the same number
            try:
                path.mkdir()
                if self.version == 2:
                    self._share_out(path)
            except OSError:
                with contextlib.suppress(OSError, GroupBusy):
                    _remove(path)
                    restore(self)
                raise
        return CgroupParent(self, path)

    def _share_out(self, path: Path) -> None:
        """Have the kernel offer quotas to the groups in ``path``.

        Move first, enable then: the kernel may well enable cpu for a group that holds processes, but makes it the root
        of a threaded subtree by that, and the groups below then refuse every process. Only the root of the whole
        hierarchy (which has no cgroup.type) may have both. ``path`` exists by now, so that no other launcher tidies up
        what we are about to make.
        """
        if (self.group / "cgroup.type").exists() and _pids(self.group):
            rest = path.with_name(f"{path.name}-rest")
            rest.mkdir(exist_ok=True)
            _move_all(self.group, rest)
        _write(self.group / _CHILDREN, "+cpu")
        _write(path / _CHILDREN, "+cpu")


class CgroupParent:
    """The parent group of one run; closing it removes all groups of the run."""

    def __init__(self, hierarchy: Hierarchy, path: Path) -> None:
        self.hierarchy, self.path = hierarchy, path
        self._made = 0

    def quota(self, name: str, share: float, *, period_us: int = 20_000) -> CpuQuota:
        """A group for the device ``name``, held to ``share`` of one core."""
        limits(share, period_us)  # refuse before a group is made
        path = self.path / f"device-{self._made}"  # a device's name may be anything, even that of a control file
        with _or_unavailable(self.hierarchy.version):
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
        """Remove the groups and take the processes back that had to make room. May be called twice."""
        with _or_unavailable(self.hierarchy.version):
            try:
                _remove(self.path)
            finally:
                restore(self.hierarchy)

    def __enter__(self) -> CgroupParent:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # if something else went wrong, that is what the user must be told; the next sweep removes what is left
        with contextlib.suppress(UserError) if kind else contextlib.nullcontext():
            self.close()


class CpuQuota:
    """The group of one device, and its limit as the kernel has it."""

    def __init__(self, name: str, path: Path, version: int, period_us: int) -> None:
        self.name, self.path, self.share = name, path, 1.0
        self._version, self._period_us = version, period_us

    def set(self, share: float) -> None:
        """Change the limit. ``share`` is then what was obtained, which may differ from what was asked by rounding."""
        asked = limits(share, self._period_us)
        with _or_unavailable(self._version):
            if self._version == 1:
                # the period first: quota and period are then never, not for a moment, above both the old and new share
                _write(self.path / _PERIOD, str(asked[1]))
                _write(self.path / _QUOTA, str(asked[0]))
                words = [_read(self.path / _QUOTA), _read(self.path / _PERIOD)]
            else:
                _write(self.path / _MAX, "{} {}".format(*asked))
                words = _read(self.path / _MAX).split()
        if words != [str(number) for number in asked]:
            raise QuotaMismatch(
                f"{self.path}: asked for {asked[0]} us of CPU time every {asked[1]} us for {self.name!r}, but the"
                f" kernel says {' every '.join(words)}; does another program manage this group? Or {_PACE}"
            )
        self.share = asked[0] / asked[1]

    def add(self, pid: int) -> None:
        """Put a process, with all its threads, under the limit. ProcessLookupError if there is no such process."""
        with _or_unavailable(self._version, but=errno.ESRCH):
            _write(self.path / _PROCS, str(pid))
            inside = _pids(self.path)
        if pid not in inside:  # the kernel silently leaves a process where it is that is about to end
            raise QuotaMismatch(
                f"{self.path}: asked for process {pid} of {self.name!r} to be in it, but the kernel says"
                f" {inside or 'that it is empty'}; the process has ended, or was moved by another program"
            )

    def throttled_seconds(self) -> float:
        """For how long the limit has held the group back so far."""
        with _or_unavailable(self._version):
            stat = dict(line.split(maxsplit=1) for line in _read(self.path / "cpu.stat").splitlines())
        return int(stat["throttled_time"]) / 1e9 if self._version == 1 else int(stat["throttled_usec"]) / 1e6

    def close(self) -> None:
        """Remove the group; its processes must have ended. May be called twice."""
        with _or_unavailable(self._version):
            _remove(self.path)


def limits(share: float, period_us: int) -> tuple[int, int]:
    """Quota and period in µs. The period grows for a small share: a quota of 1000 µs is the least that the kernel
    takes, and keeps the error of rounding to whole µs below 0.05 %.
    """
    if not SMALLEST_SHARE <= share <= 1:  # so written that it catches NaN
        raise UserError(f"a CPU quota of {share:.3g} of a core cannot be set; use {SMALLEST_SHARE} to 1, or {_PACE}")
    if not _LEAST_US <= period_us <= _LONGEST_US:
        raise ValueError(f"period_us must be {_LEAST_US} to {_LONGEST_US}, not {period_us}")
    period = min(max(period_us, math.ceil(_LEAST_US / share)), _LONGEST_US)
    return max(_LEAST_US, round(share * period)), period


def find(mounts: Path = Path("/proc/self/mounts"), membership: Path = Path("/proc/self/cgroup")) -> Hierarchy:
    """The hierarchy that has the cpu controller. It is in one only: on a hybrid host that is version 1."""
    try:
        rows = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
        ours = [line.split(":", 2) for line in membership.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise Unavailable(f"no CPU quotas: {error.filename}: {error.strerror}; they need Linux: {_PACE}") from error
    without = ""
    for _, place, kind, options, *_ in rows:
        if kind == "cgroup" and "cpu" in options.split(","):
            return Hierarchy(1, _own_group(place, [path for _, names, path in ours if "cpu" in names.split(",")]))
        if kind == "cgroup2":
            group = _own_group(place, [path for number, _, path in ours if number == "0"])
            with _or_unavailable(2):
                offered = _read(group / "cgroup.controllers")
            if "cpu" in offered.split():
                return Hierarchy(2, group)
            without = f"{group}/cgroup.controllers offers no cpu (but: {offered or 'nothing'}); {_remedy(2)}"
    raise Unavailable(f"no CPU quotas: {without or f'no cgroup hierarchy with the cpu controller is mounted; {_PACE}'}")


def _own_group(place: str, paths: list[str]) -> Path:
    mount = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place))
    for path in paths:
        group = mount / path.lstrip("/")
        # in a container the path may be that of the host, or lead out of what is mounted here
        if ".." not in group.parts and group.is_dir():
            ours = _OURS.fullmatch(group.name)
            return group.parent if ours and ours[2] else group  # a launcher moved us here: its parent is our group
    return mount


def sweep(hierarchy: Hierarchy) -> list[str]:
    """Remove the empty groups of launchers that are dead: after kill -9 nobody did. Gives the names of what is gone."""
    gone = []
    with contextlib.suppress(OSError):  # what is not ours to remove must not keep a run from starting
        for group in _below(hierarchy.group):
            ours = _OURS.fullmatch(group.name)
            if ours and not ours[2] and not _alive(int(ours[1])):
                with contextlib.suppress(OSError, GroupBusy):
                    _remove(group, looks=1)
                    gone.append(group.name)
        with contextlib.suppress(GroupBusy):
            restore(hierarchy)
    return gone


def restore(hierarchy: Hierarchy) -> None:
    """Take the processes back that had to make room, unless another launcher still needs the room."""
    ours = [(group, _OURS.fullmatch(group.name)) for group in _below(hierarchy.group)]
    rests = [group for group, match in ours if match and match[2]]
    if not rests or any(match and not match[2] for _, match in ours):
        return  # without a rest the group had no processes, and enabling cpu in it took nothing from anyone
    if "cpu" in _read(hierarchy.group / _CHILDREN).split():
        _write(hierarchy.group / _CHILDREN, "-cpu")
    for rest in rests:
        _move_all(rest, hierarchy.group)
        _remove(rest)


def _move_all(source: Path, target: Path) -> None:
    for _ in range(_ROUNDS):  # a process may fork between our reading and our moving
        pids = _pids(source)
        if not pids:
            return
        for pid in pids:
            if pid:  # 0 stands for a process of another namespace, but written it would mean us
                with contextlib.suppress(ProcessLookupError):
                    _write(target / _PROCS, str(pid))
    raise OSError(errno.EBUSY, "its processes cannot be moved", str(source))


def _remove(group: Path, looks: int = _LOOKS) -> None:
    """Remove a group and those in it. A process that has ended keeps its group busy until its parent has noticed."""
    for look in range(looks):
        if look:
            threading.Event().wait(_LOOK_SECONDS)
        busy = []
        for path in (*_below(group), group):
            try:
                path.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                busy.append(path)
        if not busy:
            return
    pids = ", ".join(str(pid) for path in busy for pid in _pids(path)) or "unseen"
    raise GroupBusy(
        f"{group}: cannot be removed, it still holds processes ({pids}) after {looks * _LOOK_SECONDS:.0f} s;"
        " end them, then the next run removes it"
    )


def _below(group: Path) -> list[Path]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(path for path in group.iterdir() if path.is_dir())
    return []


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _pids(group: Path) -> list[int]:
    return [int(word) for word in _read(group / _PROCS).split()]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def _write(path: Path, text: str) -> None:
    """In one write, as the kernel wants it, and without O_CREAT: that turns "no such file" into "not permitted"."""
    try:
        with path.open("r+b", buffering=0) as file:
            file.write(text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def _or_unavailable(version: int, but: int | None = None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == but:
            raise
        raise Unavailable(f"no CPU quotas: {error.filename}: {error.strerror}; {_remedy(version)}") from error


def _remedy(version: int) -> str:
    if os.geteuid() == 0:
        better = "start it with systemd-run --scope -p Delegate=yes <command>" if version == 2 else "make it writable"
        return f"{better} (in a container: --privileged), or {_PACE}"
    rootless = ", or with systemd-run --user --scope -p Delegate=yes <command>" if version == 2 else ""
    return f"run as root{rootless}, or {_PACE}"
