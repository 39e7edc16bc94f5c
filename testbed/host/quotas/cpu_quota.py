"""The CPU quota of one device: a control group with a limit, which is read back from the kernel."""

from __future__ import annotations

import errno
import math
from pathlib import Path

from testbed.common.errors import UserError
from testbed.host.quotas import cgroup_files as files
from testbed.host.quotas.cgroup_files import PACE, or_unavailable

SMALLEST_SHARE = 0.001
_LEAST_US, _LONGEST_US = 1_000, 1_000_000  # the kernel's limits: shortest quota and period, longest period
_PERIOD, _QUOTA, _MAX = "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.max"


class QuotaMismatch(UserError):
    """The kernel accepted a limit, or a process, but reads back something else."""


class CpuQuota:
    """The group of one device; ``share`` is its limit as the kernel reports it."""

    def __init__(self, name: str, path: Path, version: int, period_us: int) -> None:
        self.name, self.path, self.share = name, path, 1.0
        self._version, self._period_us = version, period_us

    def set(self, share: float) -> None:
        """Change the limit and update ``share``, which may differ from the argument by rounding.

        Raises QuotaMismatch if the kernel reads back another limit.
        """
        asked = limits(share, self._period_us)
        with or_unavailable(self._version):
            if self._version == 1:
                # period first: so quota/period never exceeds both the old and the new share, not even for a moment
                files.write(self.path / _PERIOD, str(asked[1]))
                files.write(self.path / _QUOTA, str(asked[0]))
                words = [files.read(self.path / _QUOTA), files.read(self.path / _PERIOD)]
            else:
                files.write(self.path / _MAX, "{} {}".format(*asked))
                words = files.read(self.path / _MAX).split()
        if words != [str(number) for number in asked]:
            raise QuotaMismatch(
                f"{self.path}: asked for {asked[0]} us of CPU time every {asked[1]} us for {self.name!r}, but the"
                f" kernel reports {' every '.join(words)}; stop the program that manages this group, or {PACE}"
            )
        self.share = asked[0] / asked[1]

    def add(self, pid: int) -> None:
        """Put a process with all its threads under the limit. Raises ProcessLookupError if there is no such process."""
        with or_unavailable(self._version, but=errno.ESRCH):
            files.write(self.path / files.PROCS, str(pid))
            inside = files.pids(self.path)
        if pid not in inside:  # the kernel does not move a process that is about to end, and reports no error
            raise QuotaMismatch(
                f"{self.path}: asked for process {pid} of {self.name!r} to be in it, but the kernel reports"
                f" {inside or 'that it is empty'}; the process has ended, or another program moved it"
            )

    def throttled_seconds(self) -> float:
        """Seconds for which the limit has stopped the group so far."""
        with or_unavailable(self._version):
            stat = dict(line.split(maxsplit=1) for line in files.read(self.path / "cpu.stat").splitlines())
        return int(stat["throttled_time"]) / 1e9 if self._version == 1 else int(stat["throttled_usec"]) / 1e6

    def close(self) -> None:
        """Remove the group; its processes must have ended. May be called twice."""
        with or_unavailable(self._version):
            files.remove(self.path)


def limits(share: float, period_us: int) -> tuple[int, int]:
    """Quota and period in µs for a share of one core.

    A small share gets a longer period: the kernel accepts no quota below 1000 µs, and with at least 1000 µs the error
    of rounding to whole µs stays below 0.05 %.
    """
    if not SMALLEST_SHARE <= share <= 1:  # written so that NaN is refused
        raise UserError(f"a CPU quota of {share:.3g} of a core cannot be set; use {SMALLEST_SHARE} to 1, or {PACE}")
    if not _LEAST_US <= period_us <= _LONGEST_US:
        raise ValueError(f"period_us must be {_LEAST_US} to {_LONGEST_US}, not {period_us}")
    period = min(max(period_us, math.ceil(_LEAST_US / share)), _LONGEST_US)
    return max(_LEAST_US, round(share * period)), period
