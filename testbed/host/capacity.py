"""Whether this host has memory and open files enough for a fleet."""

from __future__ import annotations

import resource

import psutil

from testbed.common.errors import UserError

BYTES_PER_DEVICE = 30 << 20
BYTES_FOR_THE_REST = 700 << 20
"""Template, aggregator and evaluator."""
_VECTORS_PER_DEVICE = 6
"""Model, gradient, base and delta in the device; a delta and perhaps a past model in the aggregator."""
_VECTORS_FOR_DIFFERENCES = 3
"""The sum of what was taken, in double precision, and the difference that is undecided."""
FILES_PER_DEVICE = 8
FILES_FOR_THE_REST = 256


def bytes_needed(devices: int, model_bytes: int = 0, *, differences: bool = False) -> int:
    """Memory for a fleet: its processes, and the vectors that a device and the aggregator hold for it.

    ``differences``: whether devices remember what the aggregator has of them.
    """
    vectors = _VECTORS_PER_DEVICE + (_VECTORS_FOR_DIFFERENCES if differences else 0)
    return devices * (BYTES_PER_DEVICE + vectors * model_bytes) + BYTES_FOR_THE_REST


def check_capacity(devices: int) -> None:
    """Refuse a fleet that this host has no memory, processes or files for."""
    needed, free = bytes_needed(devices), psutil.virtual_memory().available
    if needed > free:
        most = max(0, int((free - BYTES_FOR_THE_REST) // BYTES_PER_DEVICE))
        raise UserError(
            f"devices: {devices} devices need about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free;"
            f" use at most {most} devices"
        )
    # the launcher and the aggregator hold a few descriptors for each device
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_PER_DEVICE * devices + FILES_FOR_THE_REST
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise UserError(
                f"devices: {devices} devices need {wanted} open files, the limit is {hard}; raise ulimit -n"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
