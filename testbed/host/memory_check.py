"""The memory check: whether this host has enough memory and open files for a fleet.

It runs before the size of the model is known; ``testbed.planning.planner`` repeats it with the model.
"""

from __future__ import annotations

import resource

import psutil

from testbed.common.errors import UserError

BYTES_PER_DEVICE = 30 << 20
BYTES_FOR_THE_REST = 700 << 20
"""Template, aggregator and evaluator."""
_VECTORS_PER_DEVICE = 6
"""Model, gradient, base and delta in the device; a delta, and possibly a past model, in the aggregator."""
_VECTORS_FOR_BASELINE = 3
"""The baseline in double precision (two), and the difference that is not yet confirmed."""
FILES_PER_DEVICE = 8
FILES_FOR_THE_REST = 256


def bytes_needed(devices: int, model_bytes: int = 0, *, baselines: bool = False) -> int:
    """Memory for a fleet: its processes, and for each device the vectors on the device and in the aggregator.

    ``baselines``: whether each device keeps a baseline.
    """
    vectors = _VECTORS_PER_DEVICE + (_VECTORS_FOR_BASELINE if baselines else 0)
    return devices * (BYTES_PER_DEVICE + vectors * model_bytes) + BYTES_FOR_THE_REST


def check_memory_and_files(devices: int) -> None:
    """Raise UserError if this host has too little memory or too few open files; raise the soft limit on files."""
    needed, free = bytes_needed(devices), psutil.virtual_memory().available
    if needed > free:
        most = max(0, int((free - BYTES_FOR_THE_REST) // BYTES_PER_DEVICE))
        raise UserError(
            f"devices: {devices} devices need about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free;"
            f" use at most {most} devices"
        )
    # the launcher and the aggregator have a few descriptors open for each device
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_PER_DEVICE * devices + FILES_FOR_THE_REST
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise UserError(
                f"devices: {devices} devices need {wanted} open files, the limit is {hard}; raise ulimit -n"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
