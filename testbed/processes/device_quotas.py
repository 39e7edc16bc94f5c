"""The CPU quotas of a run's devices: by control groups, or by signals."""

from __future__ import annotations

import contextlib
import os

from testbed.common.errors import UserError
from testbed.host import kernel
from testbed.host.quotas import cgroups
from testbed.host.quotas.cgroups import CgroupParent
from testbed.host.quotas.cpu_quota import CpuQuota
from testbed.planning.planner import Plan


class DeviceQuotas:
    """Makes the control groups of one run, and removes them at its end."""

    def __init__(self) -> None:
        self._parent: CgroupParent | None = None
        self._groups: list[CpuQuota] = []

    def assign(self, plan: Plan) -> dict[str, CpuQuota | float]:
        """The quota of each device that a quota slows. Raises UserError if this host cannot set it."""
        quotas: dict[str, CpuQuota | float] = {}
        for step in plan.steps:
            key = f"devices[{step.device.group}].profile.throttle ({step.device.name})"
            if step.device.throttle == "signal":
                if not kernel.has_schedstat():
                    raise UserError(f'{key}: signal needs /proc/PID/schedstat, which this kernel lacks; use "pace"')
                quotas[step.device.name] = step.quota
            elif step.device.throttle == "cgroup":
                try:
                    quotas[step.device.name] = group = self._cgroup_parent().quota(step.device.name, step.quota)
                except UserError as problem:
                    raise UserError(f"{key}: {problem}") from None
                self._groups.append(group)
        return quotas

    def lift(self) -> None:
        """Remove the limits, so that killed processes get enough CPU time to end."""
        for quota in self._groups:
            with contextlib.suppress(UserError):
                quota.set(1.0)

    def close(self) -> None:
        """Remove the control groups. Raises UserError if that fails; the next run removes what is left."""
        if self._parent is not None:
            self._parent.close()

    def _cgroup_parent(self) -> CgroupParent:
        if self._parent is None:
            self._parent = cgroups.find().make_parent(os.getpid())
        return self._parent
