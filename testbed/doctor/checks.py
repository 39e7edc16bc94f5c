"""Checks what this host can and cannot do for a run. Reads only; changes nothing."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from testbed.host import cores, survey_memory, topology
from testbed.host.core_plan import CoreRoles
from testbed.host.memory.memory_check import BYTES_FOR_THE_REST, BYTES_PER_DEVICE, FILES_FOR_THE_REST, FILES_PER_DEVICE
from testbed.host.priority import Policy, Priority
from testbed.host.quotas import cgroups
from testbed.host.quotas.cgroup_files import QuotasUnavailable
from testbed.host.topology import Topology

_NICEST = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinding:
    """The result of one check. ``ok`` is None if a run does not need it."""

    what: str
    ok: bool | None
    found: str
    means: str


def examine() -> Iterator[HostFinding]:
    yield _cores()
    if hasattr(os, "sched_getaffinity"):
        yield from _roles(cores.roles(), topology.read(cores.available_cores()))
    yield from (_affinity(), _priority(), _memory(), _files(), _schedstat(), _pressure(), _cgroup(), _rapl())
    yield _surveys()


def _cores() -> HostFinding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    means = (
        "devices use all but one, and that one beside the aggregator if they need it"
        if count > 1
        else "the aggregator shares it with the devices: their timing will suffer"
    )
    return HostFinding(what="cores", ok=count > 1, found=str(count), means=means)


def _roles(roles: CoreRoles, host: Topology) -> Iterator[HostFinding]:
    """What the cores are for, which of them share hardware, and how the aggregator gets its core."""
    devices = ", ".join(map(str, roles.device_cores))
    yield HostFinding(
        what="core roles",
        ok=None,
        found=f"aggregator {roles.aggregator}, evaluator {roles.evaluator}, devices {devices}",
        means=_sharing(roles.policy),
    )
    if host.physical < len(host.cores):
        kept = f"core {', '.join(map(str, roles.free))} stays free beside the aggregator" if roles.free else ""
        yield HostFinding(
            what="SMT",
            ok=None,
            found=f"{len(host.cores)} threads on {host.physical} physical cores",
            means=kept or "two threads of one physical core slow each other down; the survey measures it",
        )
    if host.nodes > 1:
        yield HostFinding(
            what="NUMA",
            ok=None,
            found=f"{host.nodes} memory nodes",
            means=f"devices use node {host.node[roles.aggregator]}, the aggregator's, first",
        )


def _sharing(policy: Policy) -> str:
    if policy is Policy.NICE:
        return "the aggregator cannot interrupt devices: they share its core only if the profile says so"
    return f"the aggregator interrupts devices on its core ({policy})"


def _affinity() -> HostFinding:
    able = hasattr(os, "sched_setaffinity")
    means = "processes are pinned, and the pinning is read back" if able else "a run is refused: Edgebed needs Linux"
    return HostFinding(what="affinity", ok=able, found=platform.system(), means=means)


def _priority() -> HostFinding:
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    able = nice <= _NICEST - Priority.EVALUATOR
    means = (
        "devices and evaluator run at a lower priority than the aggregator"
        if able
        else "this priority is too low already to run devices and evaluator at a lower one"
    )
    return HostFinding(what="priority", ok=able, found=f"nice {nice}", means=means)


def _memory() -> HostFinding:
    free = psutil.virtual_memory().available
    most = max(0, (free - BYTES_FOR_THE_REST) // BYTES_PER_DEVICE)
    return HostFinding(
        what="memory", ok=most >= 8, found=f"{free / 1e9:.1f} GB free", means=f"enough for about {most} devices"
    )


def _files() -> HostFinding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = (
        "any number of"
        if hard == resource.RLIM_INFINITY
        else f"about {max(0, (hard - FILES_FOR_THE_REST) // FILES_PER_DEVICE)}"
    )
    return HostFinding(what="open files", ok=None, found=f"{soft} (at most {hard})", means=f"enough for {most} devices")


def _schedstat() -> HostFinding:
    able = Path("/proc/self/schedstat").is_file()
    means = "the time that a device waits for its core can be measured" if able else "stolen time: not measured"
    return HostFinding(what="schedstat", ok=None, found="readable" if able else "absent", means=means)


def _pressure() -> HostFinding:
    able = os.access("/proc/pressure/cpu", os.R_OK)
    means = "the load of the whole host can be measured" if able else "host pressure: not measured"
    return HostFinding(what="pressure", ok=None, found="readable" if able else "absent", means=means)


def _cgroup() -> HostFinding:
    try:
        hierarchy = cgroups.find()
    except QuotasUnavailable as why:
        return HostFinding(what="cgroup", ok=None, found="none", means=str(why))
    writable = os.access(hierarchy.group, os.W_OK) and os.access(hierarchy.group / "cgroup.procs", os.W_OK)
    means = (
        'throttle = "cgroup" can be used'
        if writable
        else 'no CPU quota without root or a delegated scope; throttle = "pace", the default, needs none'
    )
    found = f"v{hierarchy.version}{', writable' if writable else ''}"
    return HostFinding(what="cgroup", ok=None, found=found, means=means)


def _rapl() -> HostFinding:
    meters = sorted(Path("/sys/class/powercap").glob("*rapl*/energy_uj"))
    able = any(os.access(meter, os.R_OK) for meter in meters)
    means = "the energy of the host can be measured" if able else "energy of the host: not measured"
    return HostFinding(
        what="RAPL", ok=None, found="readable" if able else "not readable" if meters else "absent", means=means
    )


def _surveys() -> HostFinding:
    count, path = len(survey_memory.entries()), survey_memory.place()
    means = f"seconds per step are remembered for an hour in {path}; --survey new measures them"
    return HostFinding(what="surveys", ok=None, found=f"{count} remembered", means=means)
