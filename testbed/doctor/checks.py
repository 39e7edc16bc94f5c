"""What this host can and cannot do for a run, and what that means. Pure reading; changes nothing."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from testbed.host import cgroups
from testbed.host.capacity import BYTES_FOR_THE_REST, BYTES_PER_DEVICE, FILES_FOR_THE_REST, FILES_PER_DEVICE
from testbed.host.cores import Priority

_NICEST = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at. ``ok`` is None where it is good to know but never needed."""

    what: str
    ok: bool | None
    found: str
    means: str


def examine() -> Iterator[Finding]:
    yield from (_cores(), _affinity(), _priority(), _memory(), _files(), _schedstat(), _pressure(), _cgroup(), _rapl())


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    means = (
        "the aggregator owns one, devices share the others"
        if cores > 1
        else "the aggregator shares it with the devices: their timing will suffer"
    )
    return Finding(what="cores", ok=cores > 1, found=str(cores), means=means)


def _affinity() -> Finding:
    able = hasattr(os, "sched_setaffinity")
    means = "processes are pinned, and the pinning is read back" if able else "a run is refused: Edgebed needs Linux"
    return Finding(what="affinity", ok=able, found=platform.system(), means=means)


def _priority() -> Finding:
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    room = nice <= _NICEST - Priority.EVALUATOR
    means = "devices and evaluator step back behind the aggregator" if room else "too little room left to step back"
    return Finding(what="priority", ok=room, found=f"nice {nice}", means=means)


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    most = max(0, (free - BYTES_FOR_THE_REST) // BYTES_PER_DEVICE)
    return Finding(
        what="memory", ok=most >= 8, found=f"{free / 1e9:.1f} GB free", means=f"room for about {most} devices"
    )


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = (
        "any number of"
        if hard == resource.RLIM_INFINITY
        else f"about {max(0, (hard - FILES_FOR_THE_REST) // FILES_PER_DEVICE)}"
    )
    return Finding(what="open files", ok=None, found=f"{soft} (at most {hard})", means=f"enough for {most} devices")


def _schedstat() -> Finding:
    able = Path("/proc/self/schedstat").is_file()
    means = "time that a device waited for its core can be measured" if able else "stolen time: not measured"
    return Finding(what="schedstat", ok=None, found="readable" if able else "absent", means=means)


def _pressure() -> Finding:
    able = os.access("/proc/pressure/cpu", os.R_OK)
    means = "load of the whole host can be measured" if able else "host pressure: not measured"
    return Finding(what="pressure", ok=None, found="readable" if able else "absent", means=means)


def _cgroup() -> Finding:
    try:
        hierarchy = cgroups.find()
    except cgroups.Unavailable as why:
        return Finding(what="cgroup", ok=None, found="none", means=str(why))
    writable = os.access(hierarchy.group, os.W_OK) and os.access(hierarchy.group / "cgroup.procs", os.W_OK)
    means = (
        'throttle = "cgroup" can be used'
        if writable
        else 'no CPU quota without root or a delegated scope; throttle = "pace", the default, needs none'
    )
    return Finding(what="cgroup", ok=None, found=f"v{hierarchy.version}{', writable' if writable else ''}", means=means)


def _rapl() -> Finding:
    meters = sorted(Path("/sys/class/powercap").glob("*rapl*/energy_uj"))
    able = any(os.access(meter, os.R_OK) for meter in meters)
    means = "the host's own joules can be read" if able else "the host's joules: not measured"
    return Finding(
        what="RAPL", ok=None, found="readable" if able else "not readable" if meters else "absent", means=means
    )
